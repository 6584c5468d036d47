/* answer_body_xml: reads calls that are written as tags, and makes JSON of their parameters.
 *
 *     <function=name>
 *     <parameter=key>
 *     text
 *     </parameter>
 *     </function>
 *
 * Owns:     nothing; the state is the splitter's.
 * Thread:   one at a time.
 * Cost:     O(1) a byte.
 * Not here: marks around calls (answer_split), other bodies.
 *
 * One newline at each end of a text belongs to the tags. A parameter that the tool's schema makes a
 * string streams. Any other one is held until it is whole: it is taken as JSON if it is a JSON
 * value, else as a string.
 */
#pragma once

#include "engine/answer/answer_emit.h"
#include "engine/answer/answer_json.h"
#include "engine/answer/answer_step.h"

enum { ANSWER_XML_WORD_BYTES = 256, ANSWER_XML_TAG_BYTES = 16 };

struct answer_body_xml {
    const struct answer_tools *tools;
    uint8_t state;
    bool is_named;
    bool is_text;
    bool has_parameters;
    bool has_newline; /* one is kept back: it may belong to the closing tag */
    bool is_at_start; /* of a text */
    uint8_t tag_length;
    char tag[ANSWER_XML_TAG_BYTES]; /* bytes that may become a tag */
    uint32_t word_length;
    char word[ANSWER_XML_WORD_BYTES]; /* the name, or a key */
    uint32_t name_length;
    char name[ANSWER_XML_WORD_BYTES];
    struct answer_json json; /* follows a text that may be JSON */
    bool is_json;            /* it is JSON so far */
};

void answer_body_xml_begin(struct answer_body_xml *xml, const struct answer_tools *tools);
enum answer_step answer_body_xml_byte(struct answer_body_xml *xml, struct answer_emit *emit,
                                      char byte);
/* Whether the byte that comes next belongs to the text of a parameter. */
bool answer_body_xml_is_in_text(const struct answer_body_xml *xml);
/* The mark that closes a call has come: it ends the call, if there is one. Inside of a text it is
 * this mark only where it is a control token. */
enum answer_step answer_body_xml_close(struct answer_body_xml *xml, struct answer_emit *emit);
