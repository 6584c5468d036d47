/* limits_schema: bounds of JSON Schemas on their way to a grammar.
 *
 * Owns:     numbers, with their reasons.
 * Not here: bounds of regexes, grammars and their runs (limits_grammar.h).
 */
#pragma once

/* Arrays and objects inside each other; a property takes two levels. */
#define LIMIT_SCHEMA_DEPTH  64
#define LIMIT_SCHEMA_VALUES 131072 /* a source of 256 KiB has no more */
/* of one compilation, beside its regexes and rules; large schemas of the sample need 4 MiB */
#define LIMIT_SCHEMA_BYTES (32 * 1024 * 1024)
#define LIMIT_SCHEMA_SETS  32768 /* different values that a schema describes */
/* alternatives of one value after allOf, anyOf, not and if are worked out */
#define LIMIT_SCHEMA_BRANCHES 1024
/* choices that one alternative makes before what it must not be is narrowed to one way: 2^5 ways */
#define LIMIT_SCHEMA_CHOICES    5
#define LIMIT_SCHEMA_ENUM       4096
#define LIMIT_SCHEMA_PROPERTIES 2048 /* of one object; the largest of the sample has 300 */
/* Optional members of one object that may come later than at their place, and sets of these that a
 * grammar tells apart: the lexer has about 28 states for each set, of white space before a name */
#define LIMIT_SCHEMA_ANY_ORDER  11
#define LIMIT_SCHEMA_ORDER_SETS 2500
#define LIMIT_SCHEMA_POSITIONS  4096 /* items of one array with a schema of their own */
/* sorts of names that patternProperties tell apart in one object */
#define LIMIT_SCHEMA_KEY_CLASSES 64
/* levels below a value that are looked at to see that no value can match */
#define LIMIT_SCHEMA_LOOK_AHEAD 6
#define LIMIT_SCHEMA_NESTING    32 /* values that are looked at inside each other */
/* derivatives that show that patterns have no text in common; the sample needs less than 1,000 */
#define LIMIT_SCHEMA_EMPTY_STEPS 8192
#define LIMIT_SCHEMA_UNIQUE      64 /* different values of uniqueItems: a bit each */
/* items of an array of strings that all differ, and states of these strings that are looked at */
#define LIMIT_SCHEMA_UNIQUE_TEXTS  512
#define LIMIT_SCHEMA_UNIQUE_STATES 1024
#define LIMIT_JSON_ANY_DEPTH       32 /* of a value that a schema leaves open */
/* white space in an answer: blanks or tabs behind a line end */
#define LIMIT_JSON_INDENT 24
/* digits of numbers in an answer: a decimal is held in 128 bits */
#define LIMIT_JSON_INTEGER_DIGITS  18
#define LIMIT_JSON_FRACTION_DIGITS 17
