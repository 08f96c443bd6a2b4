# %% [markdown]
# # own_method
#
# Lead of own_method.

# %%
1 + 1
