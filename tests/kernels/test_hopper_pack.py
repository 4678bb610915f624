"""The packed weights decode to the very numbers of the format, by the layout's definition, without a card."""

import pytest
import torch

from kernels.gemm.hopper.pack import (
    BLOCK_BYTES,
    Bits,
    Packed,
    UnpackableError,
    decoded,
    pack,
)

VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
SIGNED = torch.cat((VALUES, -VALUES))
NAN_BITS = 0x7F


def exact(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).reshape(codes.shape[0], -1).long()
    return SIGNED[pairs] * scales.view(torch.float8_e4m3fn).double().repeat_interleave(16, dim=1)


def random_weight(n: int, k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, generator=generator)
    scales = torch.randint(0, 256, (n, k // 16), dtype=torch.uint8, generator=generator)
    scales[(scales & NAN_BITS) == NAN_BITS] = 1
    return codes, scales


def value(packed: Packed) -> torch.Tensor:
    return decoded(packed) * packed.row_scale[: packed.n, None].double()


@pytest.mark.parametrize("bits", [Bits.BF16, Bits.FP16])
def test_every_code_with_every_scale_is_exact(bits: Bits) -> None:
    scales = torch.arange(256, dtype=torch.uint8)
    scales = scales[(scales & NAN_BITS) != NAN_BITS].repeat(4)[: 64 * 15].reshape(64, 15)
    scales = torch.cat((scales, scales[:, :1]), dim=1)
    codes = (torch.arange(8, dtype=torch.uint8) * 0x22 + 0x10).repeat(64, 16)
    assert set(codes[0, :8].tolist()) == {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}
    packed = pack(codes, scales, torch.tensor(1.0), bits)
    assert torch.equal(value(packed), exact(codes, scales))


@pytest.mark.parametrize("bits", [Bits.BF16, Bits.FP16])
@pytest.mark.parametrize(("n", "k"), [(16, 16), (64, 64), (80, 272), (144, 48), (4112, 32)])
def test_any_multiple_of_16_is_exact(bits: Bits, n: int, k: int) -> None:
    codes, scales = random_weight(n, k, seed=n + k)
    packed = pack(codes, scales, torch.tensor(0.25), bits)
    assert torch.equal(value(packed), exact(codes, scales) * 0.25)


def test_e4m3_is_the_nearest_value_after_the_rows_power_of_two() -> None:
    codes, _ = random_weight(64, 512, seed=3)
    scales = torch.randint(
        0x40, 0x7F, (64, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(4)
    )
    packed = pack(codes, scales, torch.tensor(1.0), Bits.E4M3)
    want = (exact(codes, scales) / packed.row_scale[:, None].double()).float().to(torch.float8_e4m3fn)
    assert torch.equal(decoded(packed), want.double())
    relative = (value(packed) - exact(codes, scales)).norm() / exact(codes, scales).norm()
    assert 0.01 < relative < 0.03


def test_e4m3_drops_only_blocks_ten_binades_below_their_row() -> None:
    codes = torch.full((16, 16), 0x11, dtype=torch.uint8)
    scales = torch.tensor([[0x78, 0x28]], dtype=torch.uint8).repeat(16, 1)  # 2^8 and 2^-2
    assert torch.equal(value(pack(codes, scales, torch.tensor(1.0), Bits.E4M3)), exact(codes, scales))
    scales[:, 1] = 0x20  # 2^-3
    got = value(pack(codes, scales, torch.tensor(1.0), Bits.E4M3))
    assert torch.equal(got[:, :16], exact(codes, scales)[:, :16])
    assert not got[:, 16:].any()


@pytest.mark.parametrize("bits", list(Bits))
def test_rows_of_zero_scales_and_scales_by_row(bits: Bits) -> None:
    codes, scales = random_weight(32, 64, seed=5)
    scales[3] = 0
    scales[4] = 0x80
    scales[:3], scales[5:] = 0x38, 0x38
    by_row = torch.arange(32).float()
    packed = pack(codes, scales, by_row, bits)
    assert torch.equal(value(packed), exact(codes, scales) * by_row[:, None].double())


def test_rows_past_n_and_columns_past_k_are_zero() -> None:
    codes, scales = random_weight(16, 16, seed=6)
    packed = pack(codes, scales, torch.tensor(1.0), Bits.BF16)
    assert tuple(packed.blocks.shape) == (1, 4, BLOCK_BYTES)
    whole = Packed(n=64, k=256, bits=packed.bits, blocks=packed.blocks, row_scale=packed.row_scale)
    assert not decoded(whole)[16:].any()
    assert not decoded(whole)[:, 16:].any()
    assert not packed.row_scale[16:].any()


@pytest.mark.parametrize(
    ("n", "k", "scale", "message"),
    [(24, 64, 0x38, "multiples of 16"), (16, 32, 0x7F, "NaN"), (16, 32, 0xFF, "NaN")],
)
def test_what_cannot_be_packed_is_refused_by_name(n: int, k: int, scale: int, message: str) -> None:
    codes = torch.zeros(n, k // 2, dtype=torch.uint8)
    scales = torch.full((n, k // 16), scale, dtype=torch.uint8)
    with pytest.raises(UnpackableError, match=message):
        pack(codes, scales, torch.tensor(1.0), Bits.BF16)


def test_scales_of_another_shape_are_refused() -> None:
    with pytest.raises(UnpackableError, match="block scales"):
        pack(
            torch.zeros(16, 32, dtype=torch.uint8),
            torch.zeros(16, 3, dtype=torch.uint8),
            torch.tensor(1.0),
            Bits.BF16,
        )
