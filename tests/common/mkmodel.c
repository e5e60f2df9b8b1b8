/* mkmodel.c - not a test: writes a made model, for tests of the tools. See tests/common/mkmodel.h.
 *
 *   mkmodel [--arch llama|gemma3|...] [--seed N] [--layers L] [--width W] [--heads H] [--kv-heads G]
 *           [--head D] [--ffn F] [--vocab V] [--ctx C] [--window W] [--untied] [--type T]
 *           [--also T] [--experts E] [--next N] [--planted] OUT.gguf
 */
#include "tests/common/mkmodel.h"

#include <getopt.h>

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "mkmodel: %s: %s\n", what, why);
    return 64;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"arch", 1, NULL, 'a'},   {"seed", 1, NULL, 0},      {"layers", 1, NULL, 1},
                                            {"width", 1, NULL, 2},    {"heads", 1, NULL, 3},     {"kv-heads", 1, NULL, 4},
                                            {"head", 1, NULL, 5},     {"ffn", 1, NULL, 6},       {"vocab", 1, NULL, 7},
                                            {"ctx", 1, NULL, 8},      {"window", 1, NULL, 9},    {"type", 1, NULL, 't'},
                                            {"untied", 0, NULL, 'u'}, {"also", 1, NULL, 'b'},    {"experts", 1, NULL, 10},
                                            {"next", 1, NULL, 11},    {"planted", 0, NULL, 'p'}, {0}};
    int64_t given[12]; /* by option value; -1: not given */
    memset(given, 0xff, sizeof given);
    const char *arch = "llama", *type = "q8_0", *also = NULL;
    bool untied = false, planted = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?') return 64;
        if (c == 'a')
            arch = optarg;
        else if (c == 't')
            type = optarg;
        else if (c == 'b')
            also = optarg;
        else if (c == 'u')
            untied = true;
        else if (c == 'p')
            planted = true;
        else if (!zt_parse_i64(optarg, &given[c]) || given[c] < 0)
            return fail(optarg, "not a number");
    }
    if (optind != argc - 1) return fail("usage", "mkmodel [OPTIONS] OUT.gguf");
    mkmodel_opts o = mkmodel_defaults(arch);
    int64_t *const size[] = {NULL,   &o.layers, &o.width, &o.heads,  &o.kv_heads, &o.head,
                             &o.ffn, &o.vocab,  &o.ctx,   &o.window, &o.experts,  &o.next};
    for (int i = 1; i < 12; i++) {
        if (given[i] >= 0) *size[i] = given[i];
    }
    o.seed = given[0] >= 0 ? (uint64_t)given[0] : 0;
    o.type = mkmodel_type(type);
    o.also = also ? mkmodel_type(also) : NULL;
    if (also && !o.also) return fail(also, "no type of weights");
    o.untied = untied;
    o.planted = planted;
    ggufw writer = {0};
    const char *why = mkmodel(&o, &writer);
    if (why) return fail(argv[optind], why);
    if (!ggufw_save(&writer, argv[optind])) return fail(argv[optind], "cannot write");
    return 0;
}
