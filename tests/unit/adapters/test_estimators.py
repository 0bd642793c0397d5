"""scikit-learn, XGBoost and LightGBM: classes by their names, wrong input refused before the first query."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from adapter_toys import FEATURES, Counting, data, scores

import popskipjump as psj
from popskipjump.adapters import EstimatorModel, NamedFunction, Names, recognise
from popskipjump.errors import InputError, OracleError
from popskipjump.rng import Key, uniform

QUICK: dict[str, Any] = {"iterations": 2, "verdict": 5}
ANIMALS = np.array(["cat", "dog", "eel"])
WILD = np.array([-7, 40, 1000])


class Estimator:
    """What follows scikit-learn's conventions without being of it."""

    n_features_in_ = FEATURES

    def __init__(self, classes: Any) -> None:
        self.classes_, self.seen = np.asarray(classes), 0

    def predict(self, rows: np.ndarray) -> Any:
        self.seen += len(rows)
        return self.classes_[scores(rows).argmax(axis=1)]


def table(count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rows = uniform(Key(9).root(), count * FEATURES).reshape(count, FEATURES).numpy()
    return rows, scores(rows).argmax(axis=1)


@pytest.mark.parametrize("classes", [[0, 1, 2], WILD, ANIMALS, [False, True, 2], [0.5, 1.5, 2.5]], ids=str)
def test_named_classes_give_the_report_of_numbered_ones(classes: Any) -> None:
    images, places = data()
    plain = psj.evaluate(lambda x: scores(x).argmax(axis=1), images, places, **QUICK)
    estimator = Estimator(classes)
    found = psj.evaluate(estimator, images, estimator.classes_[places], **QUICK)
    assert found.points.tobytes() == plain.points.tobytes()
    assert found.labels.tolist() == places.tolist()
    assert estimator.seen == found.queries.sum()


def test_targets_and_pools_are_written_with_names_too() -> None:
    images, places = data()
    rows, classes = table(60)
    goal = (places + 1) % 3
    plain = psj.evaluate(
        lambda x: scores(x).argmax(axis=1), images, places, targets=goal, starts=psj.Pool(rows, classes), **QUICK
    )
    pool = psj.Pool(rows, ANIMALS[classes])
    found = psj.evaluate(Estimator(ANIMALS), images, ANIMALS[places], targets=ANIMALS[goal], starts=pool, **QUICK)
    assert found.points.tobytes() == plain.points.tobytes()


def test_the_number_of_classes_is_known_to_noise() -> None:
    images, places = data()
    report = psj.evaluate(Estimator(ANIMALS), images, ANIMALS[places], noise="flip:0.1", **QUICK)
    assert np.isfinite(report.distances).all()


def test_the_method_predict_stands_for_its_estimator() -> None:
    images, places = data()
    estimator = Estimator(ANIMALS)
    report = psj.evaluate(estimator.predict, images, ANIMALS[places], **QUICK)
    assert report.labels.tolist() == places.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["cat", "cow", "dog", "dog"]}, "labels hold 'cow', which is not among the classes"),
        ({"labels": [0, 1, 2, 1]}, "labels hold '0', '1', '2', which are not among the classes"),
        ({"labels": [["cat"], ["dog"], ["eel"], ["eel"]]}, "one class for each image"),
        ({"targets": ["bat"] * 4}, "targets hold 'bat'"),
        ({"starts": psj.Pool(data(2)[0], ["cat", "ant"])}, "pool labels hold 'ant'"),
        ({"images": np.zeros((4, 5), np.float32)}, r"fitted on 12 features, and an input of the shape \(5,\) has 5"),
    ],
)
def test_what_does_not_fit_the_classes_or_features_is_refused_before_the_first_query(
    change: dict[str, Any], message: str
) -> None:
    images, places = data()
    estimator = Estimator(ANIMALS)
    with pytest.raises(InputError, match=message):
        psj.evaluate(**{"model": estimator, "images": images, "labels": ANIMALS[places]} | change)
    assert estimator.seen == 0


def test_images_are_asked_as_rows() -> None:
    images, places = data()
    estimator = Estimator(ANIMALS)
    flat = psj.evaluate(estimator, images, ANIMALS[places], **QUICK)
    shaped = psj.evaluate(estimator, images.reshape(4, 1, 3, 4), ANIMALS[places], **QUICK)
    assert shaped.points.shape == (4, 1, 3, 4)
    assert shaped.distances.tolist() == flat.distances.tolist()


@pytest.mark.parametrize("classes", [["a"], ["a", "a"], [["a", "b"]], []])
def test_classes_that_are_no_list_of_different_names_are_refused(classes: Any) -> None:
    with pytest.raises(InputError, match="class"):
        Names(classes)


@pytest.mark.parametrize("classes", [[0, 1, 2], ANIMALS], ids=["numbers", "names"])
def test_an_answer_that_is_no_class_is_an_error(classes: Any) -> None:
    with pytest.raises(OracleError, match="not one of its classes"):
        Names(classes).answered(np.array([5, 6]), 2)


def test_a_function_of_names_is_counted() -> None:
    images, places = data()
    function = Counting(lambda x: ANIMALS[scores(x).argmax(axis=1)])
    report = psj.evaluate(NamedFunction(function, ANIMALS[::-1]), images, ANIMALS[places], **QUICK)
    assert report.labels.tolist() == (2 - places).tolist()
    assert function.seen == report.queries.sum()


# The real libraries.


@pytest.fixture(scope="module")
def sklearn() -> Any:
    return pytest.importorskip("sklearn")


def fitted(name: str) -> Any:
    rows, classes = table()
    if name == "pipeline":
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, ANIMALS[classes])
    if name == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(10, random_state=0).fit(rows, WILD[classes])
    if name == "search":
        from sklearn.model_selection import GridSearchCV
        from sklearn.tree import DecisionTreeClassifier

        return GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [4]}, cv=2).fit(rows, WILD[classes])
    if name == "frame":
        import pandas as pd
        from sklearn.compose import make_column_transformer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        frame = pd.DataFrame(rows, columns=[f"column {i}" for i in range(FEATURES)])
        scale = make_column_transformer((StandardScaler(), ["column 0", "column 3"]), remainder="passthrough")
        return make_pipeline(scale, LogisticRegression()).fit(frame, ANIMALS[classes])
    if name == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=8, n_jobs=1).fit(rows, classes)
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1).fit(rows, ANIMALS[classes])


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("pipeline", "sklearn"),
        ("forest", "sklearn"),
        ("search", "sklearn"),
        ("frame", "pandas"),
        ("xgboost", "xgboost"),
        ("lightgbm", "lightgbm"),
    ],
)
def test_an_estimator_of_the_real_library_is_attacked_with_its_own_classes(
    name: str, package: str, sklearn: ModuleType
) -> None:
    pytest.importorskip(package)
    estimator = fitted(name)
    images, _ = data()
    model = recognise(estimator)
    assert type(model) is EstimatorModel
    places = model.labels(__import__("torch").from_numpy(images)).numpy()
    own = estimator.classes_[places]
    report = psj.evaluate(
        estimator, images, own, starts=psj.Pool(*table(40)[:1], estimator.classes_[table(40)[1]]), **QUICK
    )
    assert {status.name for status in report.status} <= {"FINISHED", "FLAT", "NO_SIGNAL"}
    assert np.isfinite(report.distances).any()


def test_an_estimator_that_is_not_fitted_is_refused(sklearn: ModuleType) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    for estimator in (RandomForestClassifier(), make_pipeline(RandomForestClassifier())):
        with pytest.raises(InputError, match="is not fitted"):
            psj.evaluate(estimator, *data())


def test_a_regressor_is_refused_with_a_way_out(sklearn: ModuleType) -> None:
    from sklearn.linear_model import LinearRegression

    with pytest.raises(InputError, match=r"predicts numbers.*threshold"):
        psj.evaluate(LinearRegression().fit(*table()), *data())


def test_an_estimator_without_classes_is_told_to_pass_predict(sklearn: ModuleType) -> None:
    from sklearn.cluster import KMeans

    means = KMeans(3, n_init=1, random_state=0).fit(table()[0])
    with pytest.raises(InputError, match=r"KMeans is no classifier.*pass model\.predict"):
        psj.evaluate(means, *data())


def test_several_labels_at_once_are_refused(sklearn: ModuleType) -> None:
    from sklearn.tree import DecisionTreeClassifier

    rows, classes = table()
    tree = DecisionTreeClassifier().fit(rows, np.stack([classes, classes], axis=1))
    with pytest.raises(InputError, match="several labels at once"):
        psj.evaluate(tree, *data())
