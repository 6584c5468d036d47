/* simt_race_kernels: simt_kernels once more, compiled for simt_race. */
#include "tests/kit/simt/simt_kernels.cc"
