import torch

from nescio.training._augment import apply_moves, draw_moves


def test_augmentation_moves_and_mirrors():
    images = torch.zeros(200, 1, 7, 7, dtype=torch.uint8)
    images[:, :, 3, 2] = 9
    moves = draw_moves(200, shift=2, flip=True, generator=torch.Generator().manual_seed(0))
    result = apply_moves(images, moves)
    assert result.shape == images.shape
    assert (result.sum((1, 2, 3)) == 9).all()
    _, _, rows, columns = result.nonzero().unbind(1)
    assert torch.equal(rows, 3 + moves.down)
    assert torch.equal(columns, torch.where(moves.mirrored, 6 - (2 + moves.right), 2 + moves.right))
    assert set(rows.tolist()) == {1, 2, 3, 4, 5}
    assert set(columns.tolist()) == {0, 1, 2, 3, 4, 5, 6}
    some = torch.tensor([7, 3])
    assert torch.equal(apply_moves(images[some], moves.take(some)), result[some])
