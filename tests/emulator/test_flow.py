"""Basic blocks and where diverged warps meet."""

from __future__ import annotations

from kernellab.emulator.flow import EXIT, basic_blocks
from kernellab.emulator.ptx import parse


def blocks_of(body, kind=".entry"):
    head = ".version 8.0 .target sm_80 .address_size 64"
    text = f"{head} {kind} f() {{ .reg .pred %p, %q; .reg .b32 %r<3>; {body} }}"
    return basic_blocks(parse(text).functions["f"])


def test_a_diamond_meets_behind_it():
    blocks = blocks_of(
        "@%p bra ELSE; mov.b32 %r0, 1; bra END; ELSE: mov.b32 %r0, 2; END: mov.b32 %r1, 3; ret;"
    )
    assert [block.successors for block in blocks] == [(2, 1), (3,), (3,), (EXIT,)]
    assert [block.join for block in blocks] == [3, 3, 3, EXIT]


def test_a_loop_meets_behind_its_last_branch():
    blocks = blocks_of("TOP: add.u32 %r0, %r0, 1; @%q bra OUT; @%p bra TOP; OUT: mov.b32 %r1, 1; ret;")
    assert [block.join for block in blocks] == [2, 2, EXIT]


def test_lanes_that_only_leave_meet_nowhere():
    body = "@%p bra END; bar.sync 0; mov.b32 %r0, 1; END: ret;"
    assert blocks_of(body)[0].join == EXIT
    assert blocks_of(body, ".func")[0].join == 3  # a function's lanes go on behind the call


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
    assert blocks[0].join == 3


def test_an_endless_loop_has_a_virtual_exit():
    blocks = blocks_of("TOP: @%p bra ODD; add.u32 %r0, %r0, 1; ODD: add.u32 %r0, %r0, 2; bra TOP;")
    assert blocks[0].join == 2


def test_a_guarded_return_goes_on_behind_it():
    blocks = blocks_of("@%p ret; mov.b32 %r0, 1; ret;")
    assert blocks[0].successors == (EXIT, 1)
