# %% [markdown]
# # serving
#
# Lead of serving.

# %%
1 + 1
