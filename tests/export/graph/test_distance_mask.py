from __future__ import annotations

import numpy as np

from mrs.export.graph.distance_mask import distance_classes


def test_near_tokens_have_a_class_each() -> None:
    classes = distance_classes(32)
    middle = len(classes) // 2
    assert classes[middle - 8 : middle + 1].tolist() == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert classes[middle + 1 : middle + 8].tolist() == [17, 18, 19, 20, 21, 22, 23]


def test_ranges_as_transformers_has_them() -> None:
    """The first distance of each class, as `MPNetEncoder.relative_position_bucket` gives them."""
    classes = distance_classes(32)
    behind = classes[: len(classes) // 2 + 1][::-1]
    firsts = [int(np.argmax(behind == index)) for index in range(16)]
    assert firsts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]


def test_what_is_ahead_has_the_other_half() -> None:
    classes = distance_classes(32)
    middle = len(classes) // 2
    np.testing.assert_array_equal(classes[middle + 1 :], classes[:middle][::-1] + 16)
