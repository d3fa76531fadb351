import pytest

from kernellab.compile import compile_cuda, sass, sass_of
from kernellab.compile.binary import Binary
from kernellab.errors import UnavailableError

TEXT = """__device__ __noinline__ float helper(float x, float y) { return x / y; }
extern "C" __global__ void k(const float* __restrict__ x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = helper(x[i], x[0]);
}
"""


@pytest.fixture(scope="module")
def binary(cache_directory):
    return compile_cuda(TEXT)


def test_memory_accesses_carry_their_ptx_lines(binary):
    lines = binary.ptx.split("\n")
    code = sass_of(binary).functions["k"]
    loads = [each for each in code if each.opcode.startswith("LDG")]
    stores = [each for each in code if each.opcode.startswith("STG")]
    assert len(loads) == 2
    assert len(stores) == 1
    assert all("ld.global" in lines[each.ptx_line - 1] for each in loads)
    assert "st.global" in lines[stores[0].ptx_line - 1]


def test_parts_of_an_instruction(binary):
    code = sass_of(binary).functions["k"]
    exits = [each for each in code if each.opcode == "EXIT"]
    assert exits[0].predicate in {"P0", "!P0"}
    assert exits[-1].predicate is None
    assert [each.address for each in code] == sorted(each.address for each in code)
    assert code[-1].opcode == "EXIT"


def test_functions_that_stay_calls_are_functions_of_their_own(binary):
    functions = sass_of(binary).functions
    assert "_Z6helperff" in functions
    slow = next(code for name, code in functions.items() if name.startswith("__cuda_sm"))
    assert all(each.ptx_line is None for each in slow)


def test_the_listing_is_kept_on_disk(fresh_cache, monkeypatch):
    sass._disassemble.cache_clear()
    binary = compile_cuda(TEXT)
    first = sass_of(binary)
    sass._disassemble.cache_clear()
    monkeypatch.setattr(sass, "disassemble", lambda cubin: pytest.fail("nvdisasm ran again"))
    assert dict(sass_of(binary).functions) == dict(first.functions)


def test_without_nvdisasm(fresh_cache, without, binary):
    without(nvdisasm=None)
    sass._disassemble.cache_clear()
    with pytest.raises(UnavailableError, match="nvidia-cuda-nvdisasm"):
        sass_of(binary)


def test_without_machine_code():
    empty = Binary("ptx", "sm_90", "", None, {}, {}, "", "")
    with pytest.raises(UnavailableError, match="no machine code"):
        sass_of(empty)


def test_a_cubin_that_nvdisasm_refuses():
    with pytest.raises(UnavailableError, match="refuses the cubin"):
        sass.disassemble(b"rubbish")


LISTING = """
	.section	.text.k,"ax",@progbits
        .type           k,@function
k:
	//## File ".nv_debug_ptx_txt.2287605620", line 12
        /*0000*/              @!P1 STG.E.128 desc[UR4][R2.64], R4 ;
        /*0010*/              @UP0 UMOV UR4, 0x1 ;
	//## File ".nv_debug_ptx_txt.2287605620", line 13 inlined at ".nv_debug_ptx_txt.2287605620", line 20
        /*0020*/                   BRA `(.L_x_1);
        /*0030*/                   EXIT ;
.L_x_1:
        /*0040*/                   BRA `(.L_x_1);
        /*0050*/                   NOP;
        .type           $k$_Z1fv,@function
$k$_Z1fv:
        /*0060*/                   RET.REL.NODEC R4 `(k) ;
"""


def test_parsing():
    functions = sass.parse(LISTING)
    assert [(each.predicate, each.opcode, each.ptx_line) for each in functions["k"]] == [
        ("!P1", "STG.E.128", 12),
        ("UP0", "UMOV", 12),
        (None, "BRA", 13),
        (None, "EXIT", 13),
    ]
    assert functions["k"][0].operands == "desc[UR4][R2.64], R4"
    assert functions["_Z1fv"][0].ptx_line is None
