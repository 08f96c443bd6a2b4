from nescio import encoders
from nescio._kinds import InputKind


def test_one_kind_for_all_rooms():
    assert encoders.InputKind is InputKind
    assert [kind.value for kind in InputKind] == ["images", "rows", "texts"]
