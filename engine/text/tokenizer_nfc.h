/* tokenizer_nfc: brings text into Unicode's normal form C, as some models' libraries do.
 *
 * Owns:     the memory of the last result.
 * Thread:   a scratch belongs to one caller.
 * Cost:     linear in the text for any text, a long run of marks too; nothing but one look at each
 *           byte for text below U+0300. About 20 ns a character else.
 * Not here: the tables of characters (libutf8proc), which models want it (presplits.def).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

/* Zero-initialise it to begin. */
struct tokenizer_nfc {
    int32_t *points; /* [capacity], and a second half as long for sorting marks */
    size_t capacity;
    struct buffer bytes;
};

void tokenizer_nfc_init(struct tokenizer_nfc *nfc);
void tokenizer_nfc_deinit(struct tokenizer_nfc *nfc);

/* Normalises valid UTF-8. `*out` is the text itself or memory of `nfc`, valid until the next call.
 * It has at most TOKENIZER_NFC_GROWTH times as many bytes. NO_MEMORY. */
enum { TOKENIZER_NFC_GROWTH = 3 };
enum status tokenizer_nfc_apply(struct tokenizer_nfc *nfc, struct slice text, struct slice *out);
