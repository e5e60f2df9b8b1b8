/* merge.c - zt-dna merge: several models made into one. */
#include "tools/zt-dna/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_progress(void *user, const char *tensor, double done, double all)
{
    zt_progress(user, &(zt_work){"merge", tensor, "B", done, all});
}

static zt_status write_to(zt_cli *cli, zt_merge *m, const char *path, const zt_checkpoint_opts *o)
{
    zt_writer *w =
        zt_writer_open(cli->ctx, path, o, zt_merge_meta(m), zt_merge_entries(m), zt_merge_count(m));
    zt_status s = w ? zt_merge_write(m, w) : zt_ctx_status(cli->ctx);
    if (s == ZT_OK) s = zt_writer_commit(w);
    zt_writer_close(w);
    return s;
}

/* A directory of Hugging Face's is made of a whole model: by way of a file that goes again. */
static zt_status write_folder(zt_cli *cli, zt_merge *m)
{
    const char *tmp = getenv("TMPDIR");
    zt_checkpoint_opts o = {.to = zt_container_named("gguf"), .force = true};
    zt_str path;
    zt_str_init(&path, cli->ctx);
    zt_status s = zt_str_printf(&path, "%s/zt-merge-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int fd = s == ZT_OK ? mkstemp(path.data) : -1;
    if (s == ZT_OK && fd < 0)
        s = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", path.data, strerror(errno));
    if (fd >= 0) close(fd);
    if (s == ZT_OK) s = write_to(cli, m, path.data, &o);
    zt_gguf *g = s == ZT_OK ? zt_model_open(cli->ctx, path.data) : NULL;
    if (fd >= 0) unlink(path.data); /* while it is open, its bytes stay */
    if (s == ZT_OK)
        s = g ? zt_hf_write(cli->ctx, g, cli->output,
                            &(zt_hf_opts){.dtype = ZT_DTYPE_COUNT, .stop = zt_cli_interrupted})
              : zt_ctx_status(cli->ctx);
    zt_gguf_close(g);
    zt_str_fini(&path);
    return s;
}

static zt_status write_out(zt_cli *cli, const dna_options *o, zt_merge *m)
{
    size_t n = strlen(cli->output);
    zt_checkpoint_opts opts = {.force = cli->force};
    bool folder = cli->output[n - 1] == '/' || (o->to && !strcmp(o->to, "hf"));
    if (folder && !strcmp(cli->output, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "a Hugging Face directory does not go to stdout");
    if (folder) return write_folder(cli, m);
    opts.to = o->to ? zt_container_named(o->to) : zt_container_for(cli->output);
    if (o->to && !opts.to)
        return zt_cli_no_container(cli, o->to);
    if (opts.to && !zt_container_writes(opts.to))
        return zt_fail(cli->ctx, ZT_ENOTSUP, "%s is read, and not written",
                       zt_container_name(opts.to));
    return write_to(cli, m, cli->output, &opts);
}

static zt_status run(merge_inputs *in, const zt_recipe *r)
{
    zt_cli *cli = in->cli;
    zt_merge_opts o = {.threads = (int)cli->threads,
                       .seed = cli->seed,
                       .stop = zt_cli_interrupted,
                       .progress = on_progress,
                       .user = cli};
    zt_status s = merge_open(in, r);
    zt_merge *m = s == ZT_OK ? zt_merge_new(cli->ctx, r, in->parent, &o) : NULL;
    s = m ? ZT_OK : zt_ctx_status(cli->ctx);
    if (s == ZT_OK && in->o->type) s = merge_retype(cli, m, in->o->type);
    if (s == ZT_OK) s = zt_merge_check(m);
    if (s == ZT_OK) s = write_out(cli, in->o, m);
    zt_merge_free(m);
    return s;
}

zt_status dna_merge(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    merge_inputs in = {.cli = cli, .o = o, .operand = operands, .n_operands = n};
    if (!cli->output || !*cli->output)
        return zt_fail(cli->ctx, ZT_EUSAGE, "merge: no output: -o FILE");
    zt_status s = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "a model");
    zt_recipe *r = s == ZT_OK ? merge_recipe(cli, o, operands, n) : NULL;
    s = r ? run(&in, r) : zt_ctx_status(cli->ctx);
    merge_close(&in);
    zt_recipe_free(r);
    return s;
}
