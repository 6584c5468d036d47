/* limits_files: bounds of the files in a Hugging Face directory.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the bounds of everything else (limits).
 */
#pragma once

#define LIMIT_SAFETENSORS_HEADER_BYTES (64 * 1024 * 1024)
#define LIMIT_SAFETENSORS_TENSORS      262144 /* 128 experts × 3 matrices × 94 layers are 36,096 */
#define LIMIT_SAFETENSORS_NAME_BYTES   256
#define LIMIT_SAFETENSORS_DEPTH        4 /* the header, a tensor, its shape; one is spare */
#define LIMIT_SAFETENSORS_VALUES       (20 * LIMIT_SAFETENSORS_TENSORS) /* a tensor has 12 to 15 */
#define LIMIT_SHARDS                   256
#define LIMIT_INDEX_BYTES              (64 * 1024 * 1024)
#define LIMIT_FOLDER_NAME_BYTES        255               /* as in the file systems of Linux */
#define LIMIT_CONFIG_BYTES             (4 * 1024 * 1024) /* config.json and its like */
#define LIMIT_CONFIG_VALUES            65536
#define LIMIT_CONFIG_DEPTH             16
#define LIMIT_TOKENIZER_BYTES          (64 * 1024 * 1024)
#define LIMIT_TOKENIZER_VALUES         (8 * LIMIT_TOKENIZER_MERGES)
#define LIMIT_TOKENIZER_MERGES         1048576 /* Gemma has half a million */
#define LIMIT_TOKENIZER_ENDS           16      /* tokens that end an answer */
