# %% [markdown]
# # photos
#
# Lead of photos.

# %%
1 + 1
