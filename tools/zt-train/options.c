/* options.c - the options of zt-train. */
#include "tools/zt-train/train_tool.h"

/* Filled by the rows of options.def, which need constant addresses. */
train_options train_opt = {
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-train/options.def"
};

#define NETWORK ZT_IN(TRAIN_NETWORK)
#define TEXT    ZT_IN(TRAIN_TEXT)
#define EVAL    ZT_IN(TRAIN_EVAL)
#define CLUSTER ZT_IN(TRAIN_CLUSTER)
#define COMPARE ZT_IN(TRAIN_COMPARE)
#define FIT     (NETWORK | TEXT)

const char *train_network_names(const void *user, int i)
{
    (void)user;
    return zt_nn_builder(i);
}

/* The architectures of zt_llm_new. */
const char *train_architecture_names(const void *user, int i)
{
    (void)user;
    return zt_llm_new_arch(i);
}

const zt_opt train_option_table[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, train_opt.field, __VA_ARGS__)
#include "tools/zt-train/options.def"
    {0}};

const zt_shared_opt train_shared_options[] = {{"output", FIT, NULL},
                                              {"force", 0, "output|plot|observe|report"},
                                              {"seed", 0, NULL},
                                              {"format", EVAL | CLUSTER | COMPARE, NULL},
                                              {"color", EVAL | CLUSTER | COMPARE, NULL},
                                              {"progress", FIT | COMPARE, NULL},
                                              {0}};
