/* simt_kernels: all of kernels/cuda as plain C++, over simt. Names of a file begin with the file's
 * name, so that one translation unit holds them all. */
#include "kernels/cuda/cuda_attention.cu"
#include "kernels/cuda/cuda_backend.cu"
#include "kernels/cuda/cuda_backend_weight.cu"
#include "kernels/cuda/cuda_ceilings.cu"
#include "kernels/cuda/cuda_device.cu"
#include "kernels/cuda/cuda_draw.cu"
#include "kernels/cuda/cuda_embed.cu"
#include "kernels/cuda/cuda_linear.cu"
#include "kernels/cuda/cuda_linear_few.cu"
#include "kernels/cuda/cuda_linear_tile.cu"
#include "kernels/cuda/cuda_pages.cu"
#include "kernels/cuda/cuda_rows.cu"
