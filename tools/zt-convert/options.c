/* options.c - the options of zt-convert. */
#include "tools/zt-convert/convert.h"

static convert_options opt; /* filled by the rows of options.def, which need constant addresses */

/* What zt-convert does; more of the table's modes are looks at a file. */
static const zt_mode modes[CONVERT_N_MODES] = {
    [CONVERT_WRITE] = {"a conversion", NULL},
    [CONVERT_EDIT] = {"a change in place", NULL},
    [CONVERT_HF] = {"an output that is a Hugging Face directory", NULL},
    [CONVERT_MOUNT] = {"tensors that become a network", NULL},
    [CONVERT_LIST] = {"--list", "list"},
    [CONVERT_META] = {"--meta", "meta"},
    [CONVERT_CHECK] = {"--check", "check"},
    [CONVERT_HASH] = {"--hash", "hash"},
    [CONVERT_CAT] = {"--cat", "cat"},
    [CONVERT_SIGN] = {"--sign", "sign"},
    [CONVERT_VERIFY] = {"--verify-signature", "verify-signature"},
    [CONVERT_PROBE] = {"--probe", "probe"},
    [CONVERT_BLUEPRINT] = {"--blueprint", "blueprint"},
};
#define IN(mode) ZT_IN(CONVERT_##mode)

/* The words of --hint, for zt_opt.values. */
static const char *convert_layer_names(const void *user, int i)
{
    (void)user;
    return i < ZT_NN_KINDS ? zt_nn_kind_name((zt_nn_kind)i) : NULL;
}

static const zt_opt options[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, opt.field, __VA_ARGS__)
#include "tools/zt-convert/options.def"
    {0}};

static const zt_shared_opt shared[] = {{"output", IN(WRITE) | IN(HF) | IN(MOUNT) | IN(CAT) | IN(SIGN), NULL},
                                       {"force", IN(WRITE) | IN(MOUNT) | IN(CAT) | IN(SIGN), NULL},
                                       {"format", IN(LIST) | IN(META) | IN(PROBE), NULL},
                                       {"color", IN(LIST) | IN(META) | IN(PROBE), NULL},
                                       {"progress", IN(WRITE) | IN(EDIT) | IN(CHECK) | IN(HASH) | IN(SIGN) | IN(VERIFY), NULL},
                                       {0}};

static const char *const synopsis[] = {"[--to CONTAINER] [--dtype TYPE] [OPTION...] IN... OUT",
                                       "--list | --meta | --check | --hash IN...",
                                       "--probe | --blueprint IN",
                                       "--cat NAME IN",
                                       "--sign KEY | --verify-signature SIG --public-key KEY MODEL",
                                       "--set KEY=VALUE | --unset KEY | --rename FROM=TO FILE",
                                       NULL};

const zt_tool convert_tool = {
    .name = "zt-convert",
    .summary = "convert, inspect and edit model files",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
    .output_modes = ZT_IN(CONVERT_WRITE),
    .update_modes = ZT_IN(CONVERT_EDIT) | ZT_IN(CONVERT_SIGN),
    .modes = modes,
    .n_modes = CONVERT_N_MODES,
    .shared_options = shared,
};

convert_options *convert_options_init(void)
{
    opt = (convert_options){
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-convert/options.def"
    };
    return &opt;
}
