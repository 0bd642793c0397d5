from __future__ import annotations

import torch

from popskipjump.attacks.notes import Notes


def test_before_the_first_note_everyone_has_the_default():
    assert Notes(4).read("angle", torch.tensor([3, 0]), 0.5).tolist() == [0.5, 0.5]


def test_a_default_may_have_a_shape():
    assert Notes(4).read("channels", torch.tensor([3, 0]), torch.tensor([1.0, 2.0])).tolist() == [[1.0, 2.0]] * 2


def test_a_note_is_read_for_the_rows_it_was_written_for():
    notes = Notes(4)
    notes.write("angle", torch.tensor([1, 3]), torch.tensor([0.1, 0.3]))
    assert notes.read("angle", torch.tensor([3]), 0.0).tolist() == torch.tensor([0.3]).tolist()
    assert notes.read("angle", torch.tensor([3, 1]), 0.0).tolist() == torch.tensor([0.3, 0.1]).tolist()


def test_a_later_note_replaces_an_earlier_one_of_the_same_row_only():
    notes = Notes(3)
    notes.write("shift", torch.arange(3), torch.tensor([1.0, 2.0, 3.0]))
    notes.write("shift", torch.tensor([1]), torch.tensor([9.0]))
    assert notes.read("shift", torch.arange(3), 0.0).tolist() == [1.0, 9.0, 3.0]


def test_names_are_apart():
    notes = Notes(2)
    notes.write("shift", torch.arange(2), torch.ones(2))
    assert "shift" in notes
    assert "scale" not in notes
    assert notes.read("scale", torch.arange(2), 1.5).tolist() == [1.5, 1.5]


def test_what_was_read_can_be_changed_without_changing_the_notes():
    notes = Notes(2)
    notes.write("shift", torch.arange(2), torch.ones(2))
    notes.read("shift", torch.arange(2), 0.0).add_(1)
    default = notes.read("scale", torch.arange(2), 1.0)
    default[0] = 7.0
    assert default.tolist() == [7.0, 1.0]
    assert notes.read("shift", torch.arange(2), 0.0).tolist() == [1.0, 1.0]


def test_a_default_is_of_double_precision():
    assert Notes(1).read("angle", torch.tensor([0]), 0.1).tolist() == [0.1]
