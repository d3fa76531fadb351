"""Basic blocks, and the order in which a diverged warp runs them."""

from __future__ import annotations

from kernellab.emulator.flow import EXIT, basic_blocks
from kernellab.emulator.ptx import parse


def blocks_of(body, kind=".entry"):
    head = ".version 8.0 .target sm_80 .address_size 64"
    text = f"{head} {kind} f() {{ .reg .pred %p, %q; .reg .b32 %r<3>; {body} }}"
    return basic_blocks(parse(text).functions["f"])


def test_both_sides_of_a_branch_come_before_what_follows():
    blocks = blocks_of(
        "@%p bra ELSE; mov.b32 %r0, 1; bra END; ELSE: mov.b32 %r0, 2; END: mov.b32 %r1, 3; ret;"
    )
    assert [block.successors for block in blocks] == [(2, 1), (3,), (3,), (EXIT,)]
    ranks = [block.rank for block in blocks]
    assert (ranks[0], ranks[3]) == (0, 3)


def test_a_loop_comes_before_what_follows_it():
    blocks = blocks_of("TOP: add.u32 %r0, %r0, 1; @%q bra OUT; @%p bra TOP; OUT: mov.b32 %r1, 1; ret;")
    assert [block.rank for block in blocks] == [0, 1, 2]


def test_a_loop_comes_before_what_follows_it_also_where_the_text_has_it_behind():
    blocks = blocks_of(
        "bra TOP; OUT: mov.b32 %r1, 1; ret; TOP: add.u32 %r0, %r0, 1; @%p bra TOP; @%q bra TOP; bra OUT;"
    )
    ranks = [block.rank for block in blocks]
    assert ranks[1] == max(ranks)


def test_continue_and_break_meet_at_the_latch_and_behind_the_loop():
    body = (
        "TOP: @%p bra LATCH; mov.b32 %r0, 1; @%q bra OUT; mov.b32 %r1, 1;"
        "LATCH: add.u32 %r2, %r2, 1; @%p bra TOP; OUT: mov.b32 %r0, 2; ret;"
    )
    blocks = blocks_of(body)
    latch = next(block for block in blocks if block.successors == (0, block.index + 1))
    inside = [block for block in blocks if block.index < latch.index]
    assert all(block.rank < latch.rank for block in inside)
    assert blocks[-1].rank == len(blocks) - 1


def test_inner_loops_stay_inside_outer_ones():
    body = (
        "OUTER: mov.b32 %r0, 0; INNER: add.u32 %r0, %r0, 1; @%p bra INNER;"
        "mov.b32 %r1, 1; @%q bra OUTER; mov.b32 %r2, 1; ret;"
    )
    assert [block.rank for block in blocks_of(body)] == [0, 1, 2, 3]


def test_calls_barriers_and_warp_operations_end_a_block():
    blocks = blocks_of(
        "mov.b32 %r0, 1; bar.sync 0; vote.sync.ballot.b32 %r0, %p, -1; shl.b32 %r0, %r0, 1; ret;"
    )
    assert [block.terminator.opcode for block in blocks] == ["bar.sync", "vote.sync.ballot.b32", "ret"]
    assert [(block.start, block.stop) for block in blocks] == [(0, 1), (2, 2), (3, 4)]


def test_an_indexed_branch_goes_to_every_label():
    blocks = blocks_of(
        "T: .branchtargets A, B, A; brx.idx %r0, T; "
        "A: mov.b32 %r1, 1; bra END; B: mov.b32 %r1, 2; END: mov.b32 %r2, 1; ret;"
    )
    assert blocks[0].successors == (1, 2, 1)
    assert blocks[3].rank == 3


def test_an_endless_loop_and_one_with_two_entries_have_an_order():
    blocks = blocks_of("TOP: @%p bra ODD; add.u32 %r0, %r0, 1; ODD: add.u32 %r0, %r0, 2; bra TOP;")
    assert [block.rank for block in blocks] == [0, 1, 2]
    blocks = blocks_of("@%p bra B; A: @%q bra OUT; mov.b32 %r0, 1; B: mov.b32 %r1, 1; bra A; OUT: ret;")
    assert sorted(block.rank for block in blocks) == list(range(len(blocks)))
    assert blocks[-1].rank == len(blocks) - 1


def test_a_guarded_return_goes_on_behind_it():
    blocks = blocks_of("@%p ret; mov.b32 %r0, 1; ret;")
    assert blocks[0].successors == (EXIT, 1)
