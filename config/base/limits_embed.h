/* limits_embed: bounds of embeddings, as limits.h has them of other things.
 *
 * Owns:     numbers.
 * Not here: what an operator may set (options.def).
 */
#pragma once

#define LIMIT_INPUTS 2048 /* texts of one request, as in the OpenAI API */
/* all embeddings of one answer, as float32 */
#define LIMIT_EMBEDDED_BYTES (16 * 1024 * 1024)
/* the same as decimal text, 16 bytes a number, and what stands between them */
#define LIMIT_EMBEDDED_TEXT_BYTES (65 * 1024 * 1024)
