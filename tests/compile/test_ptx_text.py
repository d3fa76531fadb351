import pytest

from kernellab.compile import compile_cuda, f64_arithmetic, ptx_text

HELPER = """.version 9.0
.target sm_90
.address_size 64
.visible .func (.param .b32 r) help(.param .b32 x)
{
    .loc 1 2 3
    ret;
}
    .file 1 "helper.cu"
"""
MAIN = """.version 9.0
.target sm_90
.extern .func (.param .b32 r) help
(
    .param .b32 x
)
;
.visible .entry k()
{
    call (r), help, (x);
    ret;
}
    .file 1 "main.cu"
"""


def test_a_helper_is_merged_and_no_line_of_the_main_text_moves():
    merged = ptx_text.merge(MAIN, HELPER)
    for number, line in enumerate(MAIN.split("\n")[:11]):
        assert merged.split("\n")[number] == line.replace(".extern", ".visible")
    assert ptx_text.undefined_functions(merged) == ()
    assert ptx_text.defined_functions(merged) == ("help",)
    assert "helper.cu" not in merged
    assert merged.count(".version") == 1
    assert merged.index('"main.cu"') > merged.rindex("ret;")


def test_undefined_functions():
    assert ptx_text.undefined_functions(MAIN) == ("help",)


def test_octal_escapes():
    assert ptx_text.unescape(r"/tmp/\351\273\204 \303\251/k.cu") == "/tmp/黄 é/k.cu"
    assert ptx_text.unescape(r"C:\\a") == r"C:\a"


@pytest.mark.parametrize(("body", "wanted"), [("*y * 0.1", True), ("*y * 0.1f", False)])
def test_a_double_literal_in_a_float_kernel_is_seen(body, wanted):
    binary = compile_cuda(f'extern "C" __global__ void k(float* y) {{ *y = {body}; }}\n')
    found = f64_arithmetic(binary.ptx, "k")
    assert bool(found) is wanted
    for line, opcode in found:
        assert opcode in binary.ptx.split("\n")[line - 1]


def test_doubles_that_are_only_moved_are_no_arithmetic():
    text = 'extern "C" __global__ void k(const double* x, double* y) { y[threadIdx.x] = x[threadIdx.x]; }\n'
    assert f64_arithmetic(compile_cuda(text).ptx) == ()


def test_doubles_of_another_entry_do_not_count():
    text = 'extern "C" __global__ void wide(double* y) { *y *= 3; }\n'
    text += 'extern "C" __global__ void slim(float* y) { *y *= 3; }\n'
    ptx = compile_cuda(text).ptx
    assert f64_arithmetic(ptx, "slim") == ()
    assert [opcode for _, opcode in f64_arithmetic(ptx, "wide")] == ["mul.f64"]
