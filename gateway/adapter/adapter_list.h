/* adapter_list: makes the constants of one kind from its list. A file adapter_<kind>.c defines
 * ADAPTER_LIST as the path of its kind_<kind>.def and includes this once.
 *
 *   HONOURS(field)       a field of adapter_fields.def that the server honours
 *   WHEN_ASKED(field)    the same, but it is written only when a request asks for it
 *   FIXED(member, JSON)  a member that every request has
 *   SALT(member)         the member that separates caches; its value is 32 hex digits of the domain
 *
 * Owns:     constants.
 * Thread:   any.
 * Cost:     –
 * Not here: what they mean (adapter_kind).
 */
#include "gateway/adapter/adapter_kind.h"

#ifndef ADAPTER_LIST /* read alone: the smallest list */
#define ADAPTER_LIST "gateway/adapter/kind_openai.def"
#endif

#define HONOURS(field)    [ADAPTER_FIELD_##field] = ADAPTER_HONOURS,
#define WHEN_ASKED(field) [ADAPTER_FIELD_##field] = ADAPTER_WHEN_ASKED,
#define FIXED(member, json)
#define SALT(member)
static const uint8_t list_honours[ADAPTER_FIELDS] = {
#include ADAPTER_LIST
};
#undef HONOURS
#undef WHEN_ASKED
#undef FIXED
#undef SALT

#define HONOURS(field)
#define WHEN_ASKED(field)
#define FIXED(member, json) {member, json},
#define SALT(member)
static const struct adapter_member list_fixed[] = {
#include ADAPTER_LIST
    {NULL, NULL}};
#undef FIXED
#undef SALT

#define FIXED(member, json)
#define SALT(member) member,
static const char *const list_salts[] = {
#include ADAPTER_LIST
    NULL};
#undef HONOURS
#undef WHEN_ASKED
#undef FIXED
#undef SALT
