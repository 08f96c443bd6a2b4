# %% [markdown]
# # many_classes
#
# Lead of many_classes.

# %%
1 + 1
