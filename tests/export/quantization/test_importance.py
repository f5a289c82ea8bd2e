from __future__ import annotations

import numpy as np

from mrs.export.quantization.importance import TensorImportance


def test_importance_is_1_on_average_for_each_expert() -> None:
    squares = np.array([[1.0, 3.0], [100.0, 300.0]])
    assert TensorImportance.of_squares(squares).values.tolist() == [[0.5, 1.5], [0.5, 1.5]]


def test_columns_and_experts_without_activations_count_a_little() -> None:
    found = TensorImportance.of_squares(np.array([[0.0, 2.0], [0.0, 0.0]])).values
    assert found[0, 1] == 2
    assert 0 < found[0, 0] < 1e-3
    assert found[1].tolist() == [1, 1]


def test_each_row_has_the_importance_of_its_expert() -> None:
    importance = TensorImportance(np.array([[1.0], [2.0], [3.0]], dtype=np.float32))
    assert importance.of_rows(range(1, 5), 6)[:, 0].tolist() == [1, 2, 2, 3]


def test_a_tensor_without_experts_has_one_row_for_all() -> None:
    importance = TensorImportance(np.array([[1.0, 2.0]], dtype=np.float32))
    assert importance.of_rows(range(1, 5), 6).shape == (1, 2)
