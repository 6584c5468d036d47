/* gpu_data: random weights of every type, for checks and benchmarks of devices. */
#pragma once

#include "config/base/rng.h"
#include "kernels/tensor.h"

/* Fills `blocks` blocks with random codes and with factors that give weights within about ± spread.
 */
void gpu_data_fill(struct rng *rng, const struct tensor_type_info *type, float spread,
                   size_t blocks, void *out);
