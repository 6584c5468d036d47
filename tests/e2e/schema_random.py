"""Random JSON Schemas, and random values to try them on."""

import random

NUMBERS = (0, 1, -1, 2, 3, 5, 10, -5, 0.5, -0.5, 1.5, 2.25, 100, 99, 7, 0.1, 0.25, 12, -12.75, 1000)
TEXTS = ("", "a", "b", "ab", "abc", "x", "aa", "é", "a b")
NAMES = ("a", "b", "c", "x")
TYPES = ("integer", "number", "string", "array", "object", "boolean", "null",
         ["integer", "string"], ["null", "object"], ["array", "string"])  # fmt: skip


class Random(random.Random):
    def value(self, depth=2):
        kind = self.randrange(20)
        if kind < 7 or depth == 0:
            return self.choice(NUMBERS)
        if kind < 11:
            return self.choice(TEXTS)
        if kind < 13:
            return self.choice((True, False, None))
        if kind < 16:
            return [self.value(depth - 1) for _ in range(self.randrange(4))]
        return {name: self.value(depth - 1) for name in self.sample((*NAMES, "aa"), self.randrange(4))}

    def schemas(self, depth, most):
        return [self.schema(depth) for _ in range(self.randint(1, most))]

    def keyword(self, depth):
        """A keyword of a random group with its value."""
        scalar = [
            lambda: ("minimum", self.choice(NUMBERS)), lambda: ("maximum", self.choice(NUMBERS)),
            lambda: ("exclusiveMinimum", self.choice(NUMBERS)),
            lambda: ("exclusiveMaximum", self.choice(NUMBERS)),
            lambda: ("multipleOf", self.choice((1, 2, 3, 7, 10, 0.5, 0.1, 0.25, 1.5, 0.01, 12))),
            lambda: ("minLength", self.randrange(3)), lambda: ("maxLength", self.randrange(4)),
            lambda: ("pattern", self.choice(("^a", "b$", "^[a-c]+$", "a", "^.{2}$"))),
            lambda: ("type", self.choice(TYPES)), lambda: ("type", self.choice(TYPES)),
            lambda: ("enum", [self.value(1) for _ in range(self.randint(1, 4))]),
            lambda: ("const", self.value(1)),
            lambda: ("required", self.sample(NAMES, self.randrange(3))),
            lambda: ("minProperties", self.randrange(3)), lambda: ("maxProperties", self.randrange(4)),
            lambda: ("minItems", self.randrange(3)), lambda: ("maxItems", self.randrange(4)),
            lambda: ("propertyNames", {"pattern": "^[a-c]"}),
            lambda: ("dependentRequired", {self.choice(NAMES): self.sample(NAMES, 2)}),
        ]  # fmt: skip
        nested = [
            lambda: ("items", self.schema(depth)), lambda: ("prefixItems", self.schemas(depth, 2)),
            lambda: ("properties", {n: self.schema(depth) for n in self.sample(NAMES, self.randint(1, 3))}),
            lambda: ("properties", {n: self.schema(depth) for n in self.sample(NAMES, self.randint(1, 3))}),
            lambda: ("additionalProperties", self.schema(depth)),
            lambda: ("patternProperties", {self.choice(("^a", "b$", "c")): self.schema(depth)}),
            lambda: ("dependentSchemas", {self.choice(NAMES): self.schema(depth)}),
            lambda: ("allOf", self.schemas(depth, 3)), lambda: ("anyOf", self.schemas(depth, 3)),
            lambda: ("oneOf", self.schemas(depth, 3)), lambda: ("not", self.schema(depth)),
            lambda: ("if", self.schema(depth)), lambda: ("then", self.schema(depth)),
            lambda: ("else", self.schema(depth)),
        ]  # fmt: skip
        return self.choice(nested if depth > 0 and self.randrange(2) == 0 else scalar)()

    def schema(self, depth=3):
        if self.randrange(20) == 0:
            return self.choice((True, False))
        return dict(self.keyword(depth - 1) for _ in range(self.randint(1, 4)))
