# %% [markdown]
# # text
#
# Lead of text.

# %%
1 + 1
