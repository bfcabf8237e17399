"""Header compression in both directions, against the package hpack at the other end."""

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.http2_encoder import HeaderEncoder
from proxy.codec.http2_frames import ConnectionFault, ErrorCode
from proxy.codec.http2_hpack import MAX_DECODED_BYTES, HeaderDecoder

HEAD = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/p.Service/Method"),
    (b":authority", b"service"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"x-own", b"1"),
]

names = st.sampled_from(
    (b":path", b":authority", b"content-type", b"date", b"authorization", b"x-a", b"x-b", b"x-request-id")
)
lines = st.lists(
    st.tuples(names, st.sampled_from((b"", b"1", b"22", b"a" * 127, b"b" * 700, b"c" * 2_500))), max_size=12
)
# A block, or a new limit of the table.
steps = st.lists(st.one_of(lines, st.integers(0, 6_000)), max_size=30)


class Peer:
    """The other end of an encoder."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()

    def read(self, block: bytes) -> list[tuple[bytes, bytes]]:
        return [tuple(line) for line in self._decoder.decode(block, raw=True)]


class TestEncoder:
    def test_repeated_lines_become_one_byte_each(self):
        encoder, peer = HeaderEncoder(), Peer()
        first, second = encoder.encode(HEAD), encoder.encode(HEAD)

        assert peer.read(first) == peer.read(second) == HEAD
        assert len(second) == len(HEAD) - 1 + len(b"\x04\x11/p.Service/Method")

    @pytest.mark.parametrize("name", [b"x-request-id", b":path", b"grpc-timeout", b"x-envoy-upstream-service-time"])
    def test_values_that_vary_drive_nothing_out_of_the_table(self, name):
        encoder = HeaderEncoder()
        encoder.encode(HEAD)
        for number in range(200):
            encoder.encode([(name, b"%d" % number * 20)])

        assert len(encoder.encode([HEAD[4]])) == 1

    @pytest.mark.parametrize("name", [b"authorization", b"proxy-authorization"])
    def test_secrets_are_never_indexed(self, name):
        encoder, decoder = HeaderEncoder(), hpack.Decoder()
        for _ in range(2):
            (line,) = decoder.decode(encoder.encode([(name, b"Basic x")]), raw=True)

            assert not line.indexable

    def test_oldest_lines_are_driven_out(self):
        encoder, peer = HeaderEncoder(), Peer()
        numbered = [[(b"x-a", b"%03d" % number * 30)] for number in range(100)]
        blocks = [encoder.encode(each) for each in [*numbered, numbered[0], numbered[-1]]]

        assert [peer.read(block) for block in blocks] == [*numbered, numbered[0], numbered[-1]]
        assert len(blocks[-2]) > 90
        assert len(blocks[-1]) == 1

    def test_peer_is_told_of_the_smallest_size_and_the_last(self):
        """RFC 7541, 4.2."""
        encoder, peer = HeaderEncoder(), Peer()
        peer.read(encoder.encode(HEAD))
        for table_bytes in (100, 0, 2_000):
            encoder.limit_table(table_bytes)
        block = encoder.encode(HEAD)

        assert block.startswith(b"\x20\x3f\xb1\x0f")
        assert peer.read(block) == HEAD

    def test_table_is_never_larger_than_the_default(self):
        encoder = HeaderEncoder()
        encoder.limit_table(1_000_000)

        assert encoder.encode([(b":method", b"GET")]) == b"\x82"

    @given(steps)
    @settings(deadline=None)  # a busy machine
    def test_peer_reads_what_was_written(self, steps):
        encoder, peer = HeaderEncoder(), Peer()
        for step in steps:
            if isinstance(step, int):
                encoder.limit_table(step)
            else:
                assert peer.read(encoder.encode(step)) == step


class TestDecoder:
    def test_same_block_means_what_it_meant_before(self):
        encoder, decoder = hpack.Encoder(), HeaderDecoder()
        blocks = [encoder.encode(HEAD) for _ in range(3)]
        first, second, third = (decoder.decode(block) for block in blocks)
        third.append((b"x", b"the reader's own"))

        assert first == second == HEAD
        assert decoder.decode(blocks[2]) == HEAD

    def test_block_that_fills_the_table_with_the_same_again_is_read_once(self, monkeypatch):
        """nginx writes all lines into the table in each block, and never takes one from there."""
        read = []
        monkeypatch.setattr("proxy.codec.http2_hpack.decode_huffman", lambda text: read.append(text) or text)
        decoder = HeaderDecoder()
        blocks = [decoder.decode(b"\x88\x40\x01a\x81b\x40\x01c\x01d") for _ in range(3)]

        assert blocks == [[(b":status", b"200"), (b"a", b"b"), (b"c", b"d")]] * 3
        assert len(read) == 1
        assert decoder.decode(b"\xbe\xbf\xc3") == [(b"c", b"d"), (b"a", b"b"), (b"a", b"b")]

    def test_same_block_means_something_else_when_the_table_has_changed(self):
        decoder = HeaderDecoder()
        newest = b"\xbe"  # whatever was added last
        for value in (b"1", b"2"):
            assert decoder.decode(b"\x40\x01a\x01" + value) == [(b"a", value)]
            assert [decoder.decode(newest) for _ in range(2)] == [[(b"a", value)]] * 2

    def test_table_that_was_emptied_and_filled_again_is_another(self):
        """One entry takes all of the table: each new one drives the last out."""
        decoder = HeaderDecoder()
        for value in (b"1", b"2", b"1"):
            large = value * 4_000
            literal = b"\x40\x01a\x7f" + bytes(((4_000 - 127) & 127 | 128, (4_000 - 127) >> 7)) + large
            decoder.decode(literal + literal)
            assert [decoder.decode(b"\xbe") for _ in range(2)] == [[(b"a", large)]] * 2

    def test_unreadable_block_is_never_remembered(self):
        decoder = HeaderDecoder()
        for _ in range(2):
            with pytest.raises(ConnectionFault):
                decoder.decode(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")

    @given(steps, st.booleans())
    @settings(deadline=None)  # a busy machine
    def test_reads_what_a_decoder_without_memory_reads(self, steps, huffman):
        encoder, remembering, plain = hpack.Encoder(), HeaderDecoder(), hpack.Decoder()
        for step in steps:
            if isinstance(step, int):
                if encoder.header_table_size != min(step, 4_096):  # else package hpack forgets to tell of the change
                    encoder.header_table_size = min(step, 4_096)
                continue
            block = encoder.encode(step, huffman=huffman)
            assert remembering.decode(block) == plain.decode(block, raw=True)

    @given(st.lists(st.binary(max_size=24), max_size=6))
    @settings(deadline=None)  # a busy machine
    def test_garbage_is_read_as_package_hpack_reads_it(self, blocks):
        ours, theirs = HeaderDecoder(), hpack.Decoder()
        for block in blocks:
            try:
                expected = theirs.decode(block, raw=True)
            except hpack.HPACKError:
                with pytest.raises(ConnectionFault):
                    ours.decode(block)
                return
            assert ours.decode(block) == expected

    @pytest.mark.parametrize(
        "block",
        [
            pytest.param(b"\x80", id="line 0"),
            pytest.param(b"\xbe", id="line of an empty table"),
            pytest.param(b"\x7e", id="name of an empty table"),
            pytest.param(b"\xff", id="number cut off"),
            pytest.param(b"\xff\xff\xff\xff\xff\xff\x01", id="number without end"),
            pytest.param(b"\x40\x01a", id="no value"),
            pytest.param(b"\x40\x01a\x02b", id="text cut off"),
            pytest.param(b"\x40\x01a\x81\x00", id="padding that is none"),
            pytest.param(b"\x40\x01a\x84\xff\xff\xff\xff", id="end of string"),
            pytest.param(b"\x3f\xe2\x1f", id="table of 4,097 bytes"),
            pytest.param(b"\x82\x20", id="size of the table behind a line"),
        ],
    )
    def test_unreadable_is_a_compression_error(self, block):
        with pytest.raises(ConnectionFault) as caught:
            HeaderDecoder().decode(block)

        assert caught.value.error_code == ErrorCode.COMPRESSION_ERROR

    def test_bomb_ends_at_its_limit(self):
        """256 KiB hold 64 lines of 4,096 bytes, overhead included."""
        decoder = HeaderDecoder()
        length = 4_096 - 32 - 1
        decoder.decode(b"\x40\x01a\x7f" + bytes(((length - 127) & 127 | 128, (length - 127) >> 7)) + b"v" * length)

        assert len(decoder.decode(b"\xbe" * 64)) == 64
        with pytest.raises(ConnectionFault) as caught:
            decoder.decode(b"\xbe" * 65)
        assert caught.value.error_code == ErrorCode.ENHANCE_YOUR_CALM

    @given(st.lists(st.one_of(st.binary(max_size=40), lines), max_size=8))
    @settings(deadline=None)
    def test_reads_and_refuses_what_package_hpack_reads_and_refuses(self, blocks):
        """Any bytes, between blocks that fill the table."""
        encoder, ours, theirs = hpack.Encoder(), HeaderDecoder(), hpack.Decoder(MAX_DECODED_BYTES)
        for block in blocks:
            data = block if isinstance(block, bytes) else encoder.encode(block)
            try:
                expected = theirs.decode(data, raw=True)
            except hpack.HPACKError:
                with pytest.raises(ConnectionFault):
                    ours.decode(data)
                return
            assert ours.decode(data) == expected

    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            ("80", "no line has the index 0"),
            ("be", "no line has the index 62"),
            ("7f80", "ends inside a line"),
            ("4001", "ends inside a string"),
            ("400161", "ends inside a line"),
            ("40016102ff", "ends inside a string"),
            ("ffffffffffffff7f", "an integer out of range"),
            ("7f" + "80" * 5 + "00", "an integer out of range"),
            ("3fe21f", "a table larger than allowed"),
            ("8220", "the table's size changes inside a block"),
            ("40016182ffff", "Huffman"),  # a Huffman code of 30 ones: the end of the string
        ],
    )
    def test_unreadable(self, block, reason):
        with pytest.raises(ConnectionFault, match=reason) as raised:
            HeaderDecoder().decode(bytes.fromhex(block))

        assert raised.value.error_code is ErrorCode.COMPRESSION_ERROR

    @pytest.mark.parametrize(("count", "fits"), [(64, True), (65, False)])
    def test_block_of_few_bytes_that_stands_for_many_is_a_bomb(self, count, fits):
        """One byte for each line of 1 + 4,001 + 32 bytes; 256 KiB are the limit."""
        decoder = HeaderDecoder()
        decoder.decode(b"\x40\x01a\x7f" + bytes(((4_001 - 127) & 127 | 128, (4_001 - 127) >> 7)) + b"x" * 4_001)
        block = b"\xbe" * count

        if fits:
            assert len(decoder.decode(block)) == count
        else:
            with pytest.raises(ConnectionFault) as raised:
                decoder.decode(block)
            assert raised.value.error_code is ErrorCode.ENHANCE_YOUR_CALM

    def test_long_block_is_read_in_one_pass(self):
        """Package hpack copies the rest of the block for each line."""
        line = b"\x00\x01a\x01b"

        assert HeaderDecoder().decode(line * 7_000) == [(b"a", b"b")] * 7_000

    @given(steps, st.booleans())
    @settings(deadline=None)
    def test_both_ends_are_ours(self, steps, repeat):
        encoder, decoder = HeaderEncoder(), HeaderDecoder()
        for step in steps:
            if isinstance(step, int):
                encoder.limit_table(step)
                continue
            for _ in range(1 + repeat):
                assert decoder.decode(encoder.encode(step)) == step
