"""Units: one clause of the module's docstring a class."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import Dimension, UnitError, format_quantity, parse_bytes, parse_quantity

WHOLE = [dimension for dimension in Dimension if dimension.is_whole]
REAL = [dimension for dimension in Dimension if not dimension.is_whole]
amounts = st.floats(0, 1e18, allow_nan=False)


class TestInsideThereIsOneBaseUnit:
    @pytest.mark.parametrize(
        ("text", "dimension", "expected"),
        [
            ("80GiB", Dimension.BYTES, 80 * 2**30),
            ("80 GB", Dimension.BYTES, 80 * 10**9),
            ("1.5TB", Dimension.BYTES, 1_500_000_000_000),
            ("512B", Dimension.BYTES, 512),
            ("600GB/s", Dimension.BYTES_PER_S, 600e9),
            ("3.35TB/s", Dimension.BYTES_PER_S, 3.35e12),
            ("200Gbps", Dimension.BITS_PER_S, 200 * 10**9),
            ("200Gbps", Dimension.BYTES_PER_S, 25e9),
            ("400 Gb/sec (4X NDR)", Dimension.BITS_PER_S, 400 * 10**9),
            ("25GB/s", Dimension.BITS_PER_S, 200 * 10**9),
            ("250W", Dimension.WATTS, 250.0),
            ("1.2kW", Dimension.WATTS, 1200.0),
            ("350mW", Dimension.WATTS, 0.35),
            ("90ns", Dimension.SECONDS, 90e-9),
            ("1.5us", Dimension.SECONDS, 1.5e-6),
            ("30min", Dimension.SECONDS, 1800.0),
            ("2h", Dimension.SECONDS, 7200.0),
            ("2.4GHz", Dimension.HERTZ, 2.4e9),
            ("45Cel", Dimension.CELSIUS, 45.0),
            ("75%", Dimension.RATIO, 0.75),
            ("0.75", Dimension.RATIO, 0.75),
            ("1kWh", Dimension.JOULES, 3.6e6),
        ],
    )
    def test_known_quantities(self, text: str, dimension: Dimension, expected: float) -> None:
        assert parse_quantity(text, dimension) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("2.5 GT/s PCIe x1", 0.25e9),
            ("8.0 GT/s PCIe x16", 16 * 8e9 * 128 / 130 / 8),
            ("32.0 GT/s PCIe x16", 16 * 32e9 * 128 / 130 / 8),
            ("64 GT/s x4", 4 * 64e9 * 242 / 256 / 8),
        ],
    )
    def test_pci_express_rates_leave_out_the_encoding(self, text: str, expected: float) -> None:
        assert parse_quantity(text, Dimension.BYTES_PER_S) == pytest.approx(expected, rel=1e-12)

    @given(st.integers(0, 2**63), st.sampled_from(WHOLE))
    def test_whole_quantities_stay_exact(self, value: int, dimension: Dimension) -> None:
        assert parse_quantity(format_quantity(value, dimension, exact=True), dimension) == value

    @given(st.integers(0, 2**63))
    def test_binary_form_is_exact_too(self, value: int) -> None:
        text = format_quantity(value, Dimension.BYTES, binary=True, exact=True)
        assert parse_bytes(text) == value

    @given(amounts, st.sampled_from(REAL))
    def test_real_quantities_stay_exact(self, value: float, dimension: Dimension) -> None:
        assert parse_quantity(format_quantity(value, dimension, exact=True), dimension) == value

    @given(st.floats(1e-9, 1e17), st.sampled_from(REAL))
    def test_the_short_form_is_good_to_three_digits(
        self, value: float, dimension: Dimension
    ) -> None:
        back = parse_quantity(format_quantity(value, dimension), dimension)
        assert back == pytest.approx(value, rel=0.5e-2)


class TestAmbiguityIsRefused:
    @pytest.mark.parametrize(
        ("text", "dimension", "fix"),
        [
            ("80G", Dimension.BYTES, "Write 80GB or 80GiB."),
            ("80Gi", Dimension.BYTES, "Write 80GiB."),
            ("80gb", Dimension.BYTES, "Write 80GB."),
            ("1kb", Dimension.BYTES, "Write 1kB."),
            ("200gbps", Dimension.BITS_PER_S, "Write 200Gbps."),
            ("250w", Dimension.WATTS, "Write 250W."),
            ("80", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            ("80GB/s", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            ("5GT/s PCIe x16", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            (
                "3 GT/s PCIe x16",
                Dimension.BYTES_PER_S,
                "Known rates in GT/s: 2.5, 5, 8, 16, 32, 64.",
            ),
            ("0.3B", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            ("", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            ("GB", Dimension.BYTES, "Write for example 80GiB or 80GB."),
            ("nanGB", Dimension.BYTES, "Write for example 80GiB or 80GB."),
        ],
    )
    def test_with_what_to_write_instead(self, text: str, dimension: Dimension, fix: str) -> None:
        with pytest.raises(UnitError) as caught:
            parse_quantity(text, dimension)
        assert caught.value.faults[0].fix == fix

    def test_the_error_names_file_line_and_field(self) -> None:
        with pytest.raises(UnitError) as caught:
            parse_bytes("80G", source="node.yaml", line=7, field="memory[0].capacity")
        assert str(caught.value).startswith("node.yaml:7: memory[0].capacity: found '80G'")

    @given(st.text(), st.sampled_from(list(Dimension)))
    def test_any_text_is_read_or_refused(self, text: str, dimension: Dimension) -> None:
        try:
            parse_quantity(text, dimension)
        except UnitError as error:
            assert error.faults[0].fix  # noqa: PT017 - both outcomes are allowed

    @given(st.from_regex(r"\d{1,400}(\.\d{1,50})?(e\d{1,9})?GB", fullmatch=True))
    def test_huge_numbers_take_no_time(self, text: str) -> None:
        try:
            parse_bytes(text)
        except UnitError as error:
            assert error.faults  # noqa: PT017 - both outcomes are allowed
