/* cli.c - what all tools share, by a tool of this test's own that runs in a child process: options
 * and their faults, exit codes, messages, stdout, tables. */
#include "tests/common/tap.h"
#include "tools/common/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the tool -------------------------------------------------------------------------------- */

static struct {
    const char *model;
    int64_t n;
    double temp, any;
    size_t size;
    uint64_t id;
    int kind, many;
    bool raw, cache, given, deep, all, more;
    zt_opt_list stop;
} o = {.n = 256, .temp = 0.8, .cache = true};

// clang-format off
#define ROW(c, s, k, field, a, h, ...)                                                             \
    {.letter = c, .name = s, .kind = ZT_OPT_##k, .value = &o.field, .arg = a, .help = h,           \
     __VA_ARGS__}

static const zt_opt options[] = {
    ROW('m', "model", STR, model, "MODEL", "the model", ),
    ROW('n', NULL, I64, n, "N", "new tokens", .min = 0, .max = 1000, .given = &o.given),
    ROW(0, "temp", F64, temp, "X", "temperature", .fmin = 0, .fmax = 100),
    ROW(0, "template", STR, model, "NAME", "template", ),
    ROW(0, "any", F64, any, "X", "any number", ),
    ROW(0, "size", SIZE, size, "SIZE", "a size", ),
    ROW(0, "id", U64, id, "N", "an id", ),
    ROW(0, "kind", WORD, kind, "red|green|blue", "a colour", ),
    ROW('x', "many", COUNT, many, NULL, "often", ),
    ROW(0, "raw", FLAG, raw, NULL, "raw", ),
    ROW(0, "no-cache", OFF, cache, NULL, "no cache", ),
    ROW(0, "stop", LIST, stop, "TEXT", "end there", ),
    ROW(0, "deep", FLAG, deep, NULL, "of dive", .modes = ZT_IN(1)),
    ROW(0, "all", FLAG, all, NULL, "with --deep or -n", .needs = "deep|-n"),
    ROW(0, "extra", FLAG, more, NULL, "not with --raw", .excludes = "many|raw"),
    ROW(0, "swim", FLAG, more, NULL, "a mode", ),
    ROW(0, "dive", FLAG, more, NULL, "another", ),
    {0}};
// clang-format on

static const char *const synopsis[] = {"[OPTION...] WHAT [FILE]", "--stop TEXT", NULL};

static const zt_mode modes[] = {{"swimming", "swim", false}, {"diving", "dive", false}, {"rest", NULL, false}};
static const zt_shared_opt of_modes[] = {{"seed", ZT_IN(0) | ZT_IN(2), "raw"}, {0}};

static zt_tool tool = {.name = "zt-test",
                       .summary = "test the tools",
                       .synopsis = synopsis,
                       .options = options,
                       .shared = 0x7f,
                       .max_operands = 3,
                       .modes = modes,
                       .n_modes = 3};

static zt_status show(zt_cli *cli)
{
    zt_str string;
    zt_str_init(&string, cli->ctx);
    zt_str_printf(&string, "m=%s n=%d%s temp=%g any=%g size=%zu id=%llu kind=%d many=%d raw=%d cache=%d", o.model ? o.model : "-",
                  (int)o.n, o.given ? "!" : "", o.temp, o.any, o.size, (unsigned long long)o.id, o.kind, o.many, o.raw, o.cache);
    zt_str_printf(&string, " t=%d seed=%llu isa=%s engine=%s v=%d out=%s", (int)cli->threads, (unsigned long long)cli->seed,
                  zt_isa_name(cli->isa), cli->engine, cli->verbose, cli->output ? cli->output : "-");
    for (int i = 0; i < o.stop.n; i++) zt_str_printf(&string, " stop=%s", o.stop.item[i]);
    for (int i = 1; i < cli->n_operands; i++) zt_str_printf(&string, " [%s]", cli->operands[i]);
    zt_status st = zt_cli_write(cli, string.data, string.len);
    zt_str_fini(&string);
    return st;
}

static zt_status rows(zt_cli *cli)
{
    static const char *const columns[] = {"name", "#bytes", "note"};
    static const char *const cell[][3] = {{"a", "12", "plain"},
                                          {"b|c", "-1.5e3", "tab\there"},
                                          {"d,e", "nan", "say \"no\""},
                                          {"\033[2J", "07", "two\nlines"},
                                          {"gr\xc3\xbc\xc3\x9f", "", NULL}};
    zt_table *t = zt_table_new(cli, "test", columns, 3);
    zt_status st = t ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < 5 && st == ZT_OK; i++) st = zt_table_row(t, cell[i]);
    if (st == ZT_OK) st = zt_table_print(t);
    zt_table_free(t);
    return st;
}

static zt_status wait_for_interrupt(zt_cli *cli)
{
    zt_cli_write(cli, "valid\n", 6);
    kill(getpid(), SIGINT);
    for (int i = 0; i < 60000 && !zt_cli_interrupted(); i++) usleep(1000);
    return zt_cli_interrupted() ? zt_fail(cli->ctx, ZT_EINTR, "interrupted") : ZT_EBUG;
}

/* A line editor's write fails while a SIGINT comes, which ends no more than a line. */
static zt_status go_on(zt_cli *cli)
{
    int usual = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    fputs("line, ", stdout);
    bool failed = fflush(stdout) != 0;
    dup2(usual, STDOUT_FILENO);
    close(usual), close(full);
    kill(getpid(), SIGINT);
    for (int i = 0; i < 60000 && !zt_cli_interrupted(); i++) usleep(1000);
    zt_cli_resume();
    if (!failed || zt_cli_interrupted()) return ZT_EBUG;
    return zt_cli_write(cli, "next\n", 5);
}

static zt_status body(zt_cli *cli)
{
    const char *what = cli->n_operands ? cli->operands[0] : "nothing";
    zt_log(cli->ctx, ZT_LOG_WARN, "a warning");
    zt_log(cli->ctx, ZT_LOG_INFO, "some news");
    zt_log(cli->ctx, ZT_LOG_DEBUG, "a detail");
    if (!strcmp(what, "enter")) {
        int mode = zt_cli_mode(cli, 2);
        zt_status status = mode < 0 ? ZT_EUSAGE : zt_cli_enter(cli, mode);
        return status ? status : zt_cli_write(cli, modes[mode].name, strlen(modes[mode].name));
    }
    if (!strcmp(what, "show")) return show(cli);
    if (!strcmp(what, "table")) return rows(cli);
    if (!strcmp(what, "fault")) {
        zt_mem_fail(cli->ctx, (uint64_t)o.n, false);
        return rows(cli);
    }
    if (!strcmp(what, "binary")) return zt_cli_refuse_terminal(cli, "a tensor");
    if (!strcmp(what, "int")) return wait_for_interrupt(cli);
    if (!strcmp(what, "on")) return go_on(cli);
    if (!strcmp(what, "die")) {
        wait_for_interrupt(cli);
        kill(getpid(), SIGINT);
    }
    if (!strcmp(what, "no")) zt_cli_no(cli);
    if (!strcmp(what, "memory")) return zt_alloc(cli->ctx, 2000000) ? ZT_OK : ZT_ENOMEM;
    if (!strcmp(what, "escape")) return zt_fail(cli->ctx, ZT_EDATA, "m.gguf: tensor '\033[31m\n'");
    if (!strcmp(what, "silent")) return ZT_ESHAPE;
    if (!strcmp(what, "bar")) zt_progress(cli, &(zt_work){"reading", NULL, NULL, 1, 4});
    for (int i = 0; !strcmp(what, "pipe") && i < 100000; i++) zt_cli_write(cli, what, 4);
    return ZT_OK;
}

/* ---- running it ------------------------------------------------------------------------------ */

static char out[20000], err[20000];
static const char *to = NULL; /* where stdout goes, else into `out` */

static void slurp(int fd, char *text)
{
    ssize_t n = pread(fd, text, sizeof out - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
}

static void child(char *line, int fd_out, int fd_err)
{
    char *argv[32] = {"zt-test"};
    int argc = 1;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) argv[argc++] = strcmp(word, "''") ? word : "";
    dup2(to ? open(to, O_WRONLY) : fd_out, 1);
    dup2(fd_err, 2);
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    exit(zt_cli_close(cli, body(cli)));
}

/* The exit code, 1000 + the signal that killed it. */
static int run_tool(const char *fmt, ...)
{
    char line[1000], name[2][24] = {"/tmp/zt-cli-XXXXXX", "/tmp/zt-cli-XXXXXX"};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    int fd[2];
    for (int i = 0; i < 2; i++) {
        fd[i] = mkstemp(name[i]);
        unlink(name[i]);
    }
    pid_t pid = fork();
    if (pid == 0) child(line, fd[0], fd[1]);
    int status = 0;
    waitpid(pid, &status, 0);
    slurp(fd[0], out);
    slurp(fd[1], err);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Misuse: exit 64, nothing on stdout, this one line on stderr. */
static void misuse(const char *line, const char *says)
{
    char want[500];
    snprintf(want, sizeof want, "zt-test: %s\n", says);
    int code = run_tool("-q %s", line);
    if (!ok(code == 64 && !*out && !strcmp(err, want), "misuse: %s", says))
        diag("exit %d, stdout '%s', stderr '%s'", code, out, err);
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part)) return true;
    diag("not there: '%s' in '%s'", part, text);
    return false;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_values(void)
{
    ok(run_tool("-q show") == 0 && has(out, "m=- n=256 temp=0.8 any=0 size=0 id=0 kind=0 many=0") &&
           has(out, "raw=0 cache=1 t=0 seed=0") && has(out, "engine=auto v=0 out=-"),
       "defaults");
    ok(run_tool("-q show -m M -n 3 --temp=0.5 --any -1e3 --size 4GiB --id 18446744073709551615 "
                "--kind blue -xx --many --raw --no-cache") == 0 &&
           has(out, "m=M n=3! temp=0.5 any=-1000 size=4294967296 id=18446744073709551615 kind=2 "
                    "many=3 raw=1 cache=0"),
       "a value of each kind");
    ok(run_tool("-q show -t 2 --isa scalar --engine ref --seed 7 -vv -o F") == 0 &&
           has(out, "t=2 seed=7 isa=scalar engine=ref v=2 out=F"),
       "shared options");
    ok(run_tool("-q show a --stop x -n7 --stop y b") == 0 && has(out, "n=7!") && has(out, "stop=x stop=y [a] [b]"),
       "options and operands in any order, lists");
    ok(run_tool("-q show -- -n --raw") == 0 && has(out, "n=256 ") && has(out, "[-n] [--raw]"), "-- ends options");
    ok(run_tool("-q show -") == 0 && has(out, "[-]"), "- is an operand");
    ok(run_tool("-q show --tempera") == 64 && run_tool("-q show --si 1K") == 0 && has(out, "size=1000"),
       "a name may be cut while it is clear");
}

static void test_modes(void)
{
    tool.shared_options = of_modes;
    ok(run_tool("-q enter") == 0 && has(out, "rest") && run_tool("-q enter --dive --deep") == 0 && has(out, "diving"),
       "an option chooses the mode");
    ok(run_tool("-q enter --dive --deep --all --extra -n 1 --stop a --stop b") == 0, "options that go together");
    misuse("enter --swim --dive", "options '--swim' and '--dive' exclude each other");
    misuse("enter --deep", "option '--deep' does not apply to rest; it applies to diving");
    misuse("enter --dive --raw --seed 1", "option '--seed' does not apply to diving; it applies to swimming or rest");
    misuse("enter --seed 1", "option '--seed' needs '--raw'");
    misuse("enter --all", "option '--all' needs '--deep' or '-n'");
    misuse("enter --extra --raw", "options '--extra' and '--raw' exclude each other");
    misuse("enter -m a --model b", "option '--model' is given twice: 'a' and 'b'");
    misuse("enter -n 1 -n 2", "option '-n' is given twice: '1' and '2'");
    ok(run_tool("-q enter -n 1 -n 1 --raw --raw -vv -v") == 0, "the same twice is no conflict");
    tool.shared_options = NULL;
}

static void test_misuse(void)
{
    misuse("--tmep 1", "unknown option '--tmep' (did you mean '--temp'?)");
    misuse("--modle=x", "unknown option '--modle' (did you mean '--model'?)");
    misuse("--sede 1", "unknown option '--sede' (did you mean '--seed'?)");
    misuse("--treads 1", "unknown option '--treads' (did you mean '--threads'?)");
    misuse("--\033[2J", "unknown option '--\\x1b[2J': --help lists the options");
    misuse("--forcible", "unknown option '--forcible': --help lists the options");
    misuse("-N 1", "unknown option '-N' (did you mean '-n'?)");
    misuse("-r", "unknown option '-r' (did you mean '--raw'?)");
    misuse("-z", "unknown option '-z': --help lists the options");
    misuse("-xz", "unknown option '-z': --help lists the options");
    misuse("--te 1", "ambiguous option '--te': '--temp' or '--template'");
    misuse("--raw=1", "option '--raw' takes no value");
    misuse("--model", "option '--model' needs a value (MODEL)");
    misuse("-n", "option '-n' needs a value (N)");
    misuse("-n 1001", "option '-n': '1001' is not an integer from 0 to 1000");
    misuse("-n -1", "option '-n': '-1' is not an integer from 0 to 1000");
    misuse("-n 9999999999999999999", "option '-n': '9999999999999999999' is not an integer from 0 "
                                     "to 1000");
    misuse("-n 3x", "option '-n': '3x' is not an integer from 0 to 1000");
    misuse("-n ''", "option '-n': '' is not an integer from 0 to 1000");
    misuse("--temp nan", "option '--temp': 'nan' is not a number from 0 to 100");
    misuse("--temp 101", "option '--temp': '101' is not a number from 0 to 100");
    misuse("--any x", "option '--any': 'x' is not a number");
    misuse("--id -1", "option '--id': '-1' is not an integer from 0 to 18446744073709551615");
    misuse("--id 18446744073709551616", "option '--id': '18446744073709551616' is not an integer "
                                        "from 0 to 18446744073709551615");
    misuse("--size 4X", "option '--size': '4X' is not a size such as 20000, 512M or 4GiB");
    misuse("--kind gree", "option '--kind': 'gree' is not one of red|green|blue (did you mean 'green'?)");
    misuse("-t 0", "option '--threads': '0' is not an integer from 1 to 256");
    misuse("-t 257", "option '--threads': '257' is not an integer from 1 to 256");
    misuse("--format xml", "option '--format': 'xml' is not one of auto|tsv|csv|json|ndjson|md");
    misuse("a b c d", "unexpected argument 'd': expected at most 3 arguments");
    tool.max_operands = 0;
    misuse("x\n", "unexpected argument 'x\\x0a'");
    tool.max_operands = 3;
}

static void test_print(void)
{
    ok(run_tool("--help") == 0 && !*err && has(out, "Usage: zt-test [OPTION...] WHAT [FILE]\n") &&
           has(out, "       zt-test --stop TEXT\n") && has(out, "\n  -m, --model MODEL         the model (default: none)\n") &&
           has(out, "\n  -n N                      new tokens (default: 256)\n") &&
           has(out, "\n      --temp X              temperature (default: 0.8)\n") && has(out, "a colour (default: red)\n") &&
           has(out, "\n      --raw                 raw\n") && has(out, "\n  -t, --threads N ") && has(out, "\n  -h, --help "),
       "--help");
    ok(run_tool("--temp 3 -n 5 --help") == 0 && has(out, "temperature (default: 0.8)") && has(out, "new tokens (default: 256)"),
       "defaults are those, whatever is on the line");
    bool all = true;
    for (const zt_opt *p = options; p->letter || p->name; p++) all &= !p->name || has(out, p->name);
    ok(all && run_tool("-h --nonsense") == 0, "every option is in it; -h goes before what follows");
    ok(run_tool("-V") == 0 && !*err && has(out, "zt-test " ZT_VERSION "\ncommit: unknown\nengines: ") &&
           has(out, "\ninstructions: scalar") && has(out, "\narithmetic: "),
       "-V");
    ok(run_tool("--format json --version") == 0 &&
           has(out, "{\"schema\":\"zt.version/1\",\"name\":\"zt-test\",\"version\":\"" ZT_VERSION
                    "\",\"commit\":\"unknown\",\"engines\":[\""),
       "--version --format json");
    ok(run_tool("--completion bash") == 0 && has(out, "complete -o default -F _zt_test zt-test\n") &&
           has(out, "--kind) compopt +o default; _zt_test_words red green blue; return ;;\n") && has(out, "--no-cache"),
       "--completion");
    tool.shared = 0;
    ok(run_tool("--version --format json") == 0 && has(out, "zt.version/1"), "in a tool without tables");
    misuse("--format json", "option '--format' applies only to --version");
    misuse("--force", "unknown option '--force': --help lists the options");
    tool.shared = 0x7f;
}

static void test_exit(void)
{
    static const int code[ZT_STATUS_COUNT] = {0, 64, 65, 65, 66, 69, 70, 71, 73, 74, 75, 130};
    bool good = zt_exit_code((zt_status)99) == 70;
    for (int i = 0; i < ZT_STATUS_COUNT; i++) good &= zt_exit_code((zt_status)i) == code[i];
    ok(good, "exit codes");
    ok(run_tool("-q") == 0 && !*out && !*err, "well: 0, and quiet");
    ok(run_tool("-q no") == 1 && !*err, "no: 1, without a word");
    ok(run_tool("-q silent") == 65 && !strcmp(err, "zt-test: shape mismatch\n"), "never without one");
    ok(run_tool("-q escape") == 65 && !strcmp(err, "zt-test: m.gguf: tensor '\\x1b[31m\\x0a'\n"),
       "a message is one line without controls");
    ok(run_tool("-q memory --mem-limit 1M") == 75 && has(err, "zt-test: out of memory: requested 2000000 bytes") &&
           has(err, ", limit 1000000\n"),
       "--mem-limit");
    ok(run_tool("-q int") == 130 && !strcmp(out, "valid\n") && !strcmp(err, "zt-test: interrupted\n"),
       "SIGINT: 130, and what was written is there");
    ok(run_tool("-q --sandbox off on") == 0 && has(out, "next\n"), "an interrupted line editor fails nothing");
    ok(run_tool("-q die") == 1000 + SIGINT, "the second SIGINT kills");

    to = "/dev/full";
    ok(run_tool("-q show") == 74 && !strcmp(err, "zt-test: stdout: No space left on device\n"), "a full stdout is 74");
    ok(run_tool("--help") == 74 && run_tool("--version") == 74, "for --help and --version too");
    ok(run_tool("-q pipe") == 74, "also when it is noticed early");
    to = NULL;
}

static void test_words(void)
{
    run_tool("x");
    ok(!strcmp(err, "zt-test: a warning\n"), "warnings are said");
    run_tool("x -v");
    ok(!strcmp(err, "zt-test: a warning\nzt-test: some news\n"), "-v says more");
    run_tool("x -v --verbose");
    ok(has(err, "zt-test: a detail\n"), "-vv still more");
    run_tool("x -vv -q");
    ok(!*err, "-q says nothing");
    run_tool("-q bar");
    ok(!*err, "no bar where nobody looks");
    run_tool("-q bar --progress always");
    ok(has(err, "\r\033[Kreading [####            ]  25%\r\033[K"), "--progress always; the bar is taken away");
}

static void test_isa(void)
{
    setenv("ZT_ISA", "scalar", 1);
    ok(run_tool("-q show") == 0 && has(out, "isa=scalar"), "ZT_ISA");
    setenv("ZT_ISA", "mmx", 1);
    ok(run_tool("-q show --isa scalar") == 0 && has(out, "isa=scalar"), "--isa goes before it");
    misuse("show", "ZT_ISA: 'mmx' is not one of scalar|avx2|avx512|neon|dotprod");
    unsetenv("ZT_ISA");
    ok(run_tool("-q show") == 0 && has(out, zt_isa_name(zt_isa_best())), "the best, if not told");
    if (zt_isa_best() < ZT_ISA_AVX512)
        ok(run_tool("-q show --isa avx512") == 69 && has(err, "processor supports at most"), "not there");
    else
        skip("this processor has them all");
}

static void test_tables(void)
{
    ok(run_tool("-q table") == 0 && !strcmp(out, "name\tbytes\tnote\na\t12\tplain\nb|c\t-1.5e3\ttab\\x09here\n"
                                                 "d,e\tnan\tsay \"no\"\n\\x1b[2J\t07\ttwo\\x0alines\n"
                                                 "gr\xc3\xbc\xc3\x9f\t\t\n"),
       "tsv, and the default in a pipe");
    ok(run_tool("-q table --format csv") == 0 && !strcmp(out, "name,bytes,note\na,12,plain\nb|c,-1.5e3,tab\there\n"
                                                              "\"d,e\",nan,\"say \"\"no\"\"\"\n\033[2J,07,\"two\nlines\"\n"
                                                              "gr\xc3\xbc\xc3\x9f,,\n"),
       "csv");
    ok(run_tool("-q table --format json") == 0 &&
           !strcmp(out, "{\"schema\":\"zt.test/1\",\"rows\":[\n"
                        "{\"name\":\"a\",\"bytes\":12,\"note\":\"plain\"},\n"
                        "{\"name\":\"b|c\",\"bytes\":-1.5e3,\"note\":\"tab\\there\"},\n"
                        "{\"name\":\"d,e\",\"bytes\":null,\"note\":\"say \\\"no\\\"\"},\n"
                        "{\"name\":\"\\u001b[2J\",\"bytes\":\"07\",\"note\":\"two\\nlines\"},\n"
                        "{\"name\":\"gr\xc3\xbc\xc3\x9f\",\"bytes\":null,\"note\":null}]}\n"),
       "json");
    ok(run_tool("-q table --format ndjson") == 0 &&
           has(out, "{\"name\":\"a\",\"bytes\":12,\"note\":\"plain\"}\n{\"name\":\"b|c\""),
       "ndjson");
    ok(run_tool("-q table --format md") == 0 &&
           has(out, "| name | bytes | note |\n|---|---:|---|\n| a | 12 | plain |\n| b\\|c | "),
       "md");
    static const char *const formats[] = {"tsv", "csv", "json", "ndjson", "md"};
    for (int f = 0; f < 5; f++) {
        int count = 1, code;
        while ((code = run_tool("-q fault -n %d --format %s", count, formats[f])) == 75 && !*out && count < 900) count++;
        ok(code == 0 && count > 3 && *out, "%s: each of %d allocations may fail", formats[f], count - 1);
    }
}

/* ---- on a terminal --------------------------------------------------------------------------- */

/* What the tool writes to a terminal, its line ends put back. */
static int run_terminal(int master, const char *line)
{
    int code = run_tool("%s", line);
    ssize_t n = read(master, out, sizeof out - 1);
    char *end = out;
    for (ssize_t i = 0; i < n; i++)
        if (out[i] != '\r') *end++ = out[i];
    *end = '\0';
    return code;
}

static void test_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), keep = -1;
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0) {
        to = ptsname(master);
        keep = open(to, O_RDWR | O_NOCTTY);
    }
    if (keep < 0) {
        skip("no terminals here");
        return;
    }
    static const char want[] = "name      bytes  note\n"
                               "a            12  plain\n"
                               "b|c      -1.5e3  tab\\x09here\n"
                               "d,e         nan  say \"no\"\n"
                               "\\x1b[2J      07  two\\x0alines\n"
                               "gr\xc3\xbc\xc3\x9f\n";
    ok(run_terminal(master, "-q table --color never") == 0 && !strcmp(out, want), "columns are aligned");
    ok(run_terminal(master, "-q table") == 0 && has(out, "\033[1mname"), "titles are bold");
    setenv("NO_COLOR", "1", 1);
    ok(run_terminal(master, "-q table") == 0 && !strstr(out, "\033"), "not under NO_COLOR");
    ok(run_terminal(master, "-q table --color always") == 0 && has(out, "\033[1mname"), "unless asked for");
    unsetenv("NO_COLOR");
    ok(run_terminal(master, "-q table --format csv") == 0 && !strstr(out, "\033"), "csv: no control bytes");
    ok(run_terminal(master, "-q binary") == 64 && !*out &&
           !strcmp(err, "zt-test: a tensor cannot be written to a terminal: redirect stdout\n"),
       "binary does not go there");
    to = NULL;
    close(keep);
    close(master);
}

int main(void)
{
    unsetenv("ZT_ISA");
    test_values();
    test_modes();
    test_misuse();
    test_print();
    test_exit();
    test_words();
    test_isa();
    test_tables();
    test_terminal();
    return tap_done();
}
