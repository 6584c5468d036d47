/* tiny_mutant: a decoder that overlooks one thing, for parity_tiny.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     –
 * Not here: models changed in their file (tests/kit/tiny_model).
 *
 * The linker puts the functions of tiny_mutant.c in place of arch_find and of some operations
 * (--wrap, tests/CMakeLists.txt). They do what the real ones do, unless tiny_mutant says otherwise.
 */
#pragma once

#include "engine/models/arch.h"

struct tiny_mutant {
    void (*row)(struct arch *row); /* changes the architecture's row; or NULL */
    bool has_norm_behind_rope;     /* q and k are rotated, then normed */
    uint32_t head_dim;             /* norms of whole rows are done for each head; 0: they are not */
    bool has_no_rope_factor;       /* cos and sin are not multiplied */
    bool has_no_clamp;             /* of GPT-OSS's gate and `up` */
    bool has_no_one;               /* GPT-OSS's gate multiplies `up`, not up + 1 */
};
extern struct tiny_mutant tiny_mutant;
