# %% [markdown]
# # A table, with scikit-learn
#
# `EvidentialClassifier` is an estimator like any other: `fit`, `predict`, pipelines, searches. It also has
# opinions, and a `predict` that may abstain. Columns with categories, dates and gaps are taken as they are.

# %% tags=["parameters"]
epochs = 40
rows = 1500

# %%
import random
from datetime import date, timedelta
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from nescio import EvidentialClassifier
from nescio.integrations.sklearn import predict_opinion

# %% [markdown]
# ## Numbers: fit, predict, opinions
#
# 569 tumours with 30 measurements each, benign or malignant. One part is for training, one to choose a threshold,
# one for the test.

# %%
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
X_train, X_held_out, y_train, y_held_out = train_test_split(
    X_train, y_train, test_size=0.4, random_state=0, stratify=y_train
)
classifier = EvidentialClassifier(epochs=epochs, random_state=0).fit(X_train, y_train)
opinion = classifier.predict_opinion(X_test)
print(f"accuracy: {classifier.score(X_test, y_test):.3f}")
opinion[0]

# %% [markdown]
# ## A threshold with a promise
#
# At most 5% errors among the answers, with 95% confidence, for cases like the held-out ones. Where the classifier
# does not know, `predict(reject=True)` says None.

# %%
classifier.set_abstention(X_held_out, y_held_out, max_error=0.05)
answers = pd.Series(classifier.predict(X_test, reject=True), index=y_test.index)
answered = answers.notna()
is_right = answers[answered] == y_test[answered]
print(f"answered: {answered.mean():.0%}, of these right: {is_right.mean():.1%}")
pd.crosstab(y_test.rename("truth"), answers.fillna("I do not know").rename("answer"))

# %% [markdown]
# ## In a pipeline and a search
#
# A pipeline passes on `predict` and `predict_proba` only; `predict_opinion` reaches the opinions of the classifier
# at its end.

# %%
pipeline = make_pipeline(SelectKBest(k=10), EvidentialClassifier(epochs=epochs, random_state=0))
search = GridSearchCV(pipeline, {"selectkbest__k": [5, 20]}, cv=2)
search.fit(X_train, y_train)
print(search.best_params_, f"accuracy on the test: {search.score(X_test, y_test):.3f}")
print(f"mean uncertainty: {predict_opinion(search, X_test).uncertainty.mean():.3f}")

# %% [markdown]
# ## A table as people have it
#
# Hotel bookings, kept or cancelled, made up by a rule and some chance: a category, a date, and prices of which a
# tenth is missing. What each column holds is found out, and kept in the model file.


# %%
def made_up_bookings(count):
    chance = random.Random(0)
    bookings = []
    for _ in range(count):
        room = chance.choice(["single", "double", "suite"])
        price = round(chance.uniform(50, 300), 2)
        arrival = date(2025, 1, 1) + timedelta(days=chance.randrange(365))
        risk = price / 100 + (room == "single") - (arrival.month in (6, 7, 8)) + chance.gauss(0, 0.3)
        shown_price = None if chance.random() < 0.1 else price
        bookings.append((room, shown_price, str(arrival), "cancelled" if risk > 2 else "kept"))
    return pd.DataFrame(bookings, columns=["room", "price", "arrival", "outcome"])


bookings = made_up_bookings(rows)
train, test = train_test_split(bookings, test_size=0.25, random_state=0)
features = ["room", "price", "arrival"]
classifier = EvidentialClassifier(epochs=epochs, random_state=0).fit(train[features], train["outcome"])
print(f"accuracy: {classifier.score(test[features], test['outcome']):.3f}; ", end="")
print(f"naming the commoner outcome: {test['outcome'].value_counts(normalize=True).max():.3f}")
test.head(4)

# %% [markdown]
# Where is it in doubt? Near the prices at which kept turns into cancelled, and where the price is missing.

# %%
uncertainty = classifier.predict_opinion(test[features]).entropy(normalized=True).numpy()
is_double = ((test["room"] == "double") & test["price"].notna()).to_numpy()
is_gap = test["price"].isna().to_numpy()
figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
axes.scatter(test["price"][is_double], uncertainty[is_double], s=12, color="#0072b2", label="double rooms")
axes.axhline(
    uncertainty[is_gap].mean(), color="#d55e00", linestyle="--", label="mean where the price is missing"
)
axes.set(xlabel="price", ylabel="entropy, share of the greatest", title="Doubt by the price of the room")
axes.legend(frameon=False)
# %% [markdown]
# ## New rows
#
# The fitted model answers rows in records, as the command line does. Columns are found by their names, in any order; the last
# row has no date, and the training had none without: it gets an error of its own, and the others are answered.

# %%
Path("new.csv").write_text("arrival,price,room\n2025-07-20,60,double\n2025-02-01,,single\n,290,single\n")
for record in classifier.model_.records("new.csv"):
    print(record["name"], record["answer"], record["error"] or "")

# %% [markdown]
# ## The same without Python
#
# A file is enough: `train` holds a fifth out, fits temperature and trust, and writes a model and a report.
#
# ```bash
# nescio train bookings.csv --label outcome --out run
# nescio threshold run --data held-out --max-error 0.1
# nescio predict run new.csv
# ```
