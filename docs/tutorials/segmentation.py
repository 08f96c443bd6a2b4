# %% [markdown]
# # segmentation
#
# Lead of segmentation.

# %%
1 + 1
