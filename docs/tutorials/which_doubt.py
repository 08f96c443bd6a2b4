# %% [markdown]
# # which_doubt
#
# Lead of which_doubt.

# %%
1 + 1
