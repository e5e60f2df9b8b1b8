/* mkops.c - prints zt-ops(7) from the table of ops; with --list the contract: one fact a line; with --architectures the
 * sentence of zt-run(1) that names the architectures of language models.
 *
 *   mkops >zt-ops.7        mkops --list | LC_ALL=C sort        mkops --architectures
 *
 * The facts are what programs are written against: a row's name, the place and name of each input and
 * output, whether an input may be absent, each attribute's kind and default; and the old name of an op that
 * was renamed, with the same facts. tests/ops/contract.txt holds those that have been promised.
 */
#include "lib/engine/engine.h"
#include "lib/llm/arch/arch.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_name[] = {
    [ZT_ATTR_i64] = "i64",   [ZT_ATTR_f64] = "f64", [ZT_ATTR_word] = "word", [ZT_ATTR_dims] = "dims",
    [ZT_ATTR_ints] = "ints", [ZT_ATTR_str] = "str", [ZT_ATTR_func] = "func",
};

/* ---- values ---------------------------------------------------------------------------------- */

static void put_list(const int64_t *v, int64_t n)
{
    putchar('[');
    for (int64_t i = 0; i < n; i++) printf("%s%lld", i ? "," : "", (long long)v[i]);
    putchar(']');
}

static void put_default(zt_ctx *ctx, const zt_opinfo *info, const zt_attrdef *a)
{
    const char *field = (const char *)info->defaults + a->offset;
    zt_str s;
    double d;
    int64_t i;
    zt_ints list; /* zt_dims has the same layout */
    switch (a->kind) {
    case ZT_ATTR_i64: memcpy(&i, field, sizeof i), printf("%lld", (long long)i); break;
    case ZT_ATTR_f64:
        zt_str_init(&s, ctx);
        memcpy(&d, field, sizeof d);
        if (zt_str_put_double(&s, d) == ZT_OK) fputs(s.data, stdout);
        zt_str_fini(&s);
        break;
    case ZT_ATTR_word: fputs(field, stdout); break;
    case ZT_ATTR_dims:
    case ZT_ATTR_ints: memcpy(&list, field, sizeof list), put_list(list.v, list.n); break;
    case ZT_ATTR_str:
    case ZT_ATTR_func: fputs("none", stdout); break;
    }
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* What the field calls an op: the words that a reader searches for. */
static const char *const terms[][2] = {
    {"abs", "Absolute value"},
    {"acos", "Arc cosine"},
    {"acosh", "Inverse hyperbolic cosine"},
    {"add", "Addition"},
    {"add_rms_norm", "Residual addition and RMS normalization, fused"},
    {"add_scalar", "Addition of a constant"},
    {"amax", "Maximum (reduction)"},
    {"amin", "Minimum (reduction)"},
    {"argmax", "Index of the maximum"},
    {"argmin", "Index of the minimum"},
    {"asin", "Arc sine"},
    {"asinh", "Inverse hyperbolic sine"},
    {"atan", "Arc tangent"},
    {"atanh", "Inverse hyperbolic tangent"},
    {"attention", "Causal attention over a paged KV cache"},
    {"attention_alibi", "Causal attention over a paged KV cache, with linear biases (ALiBi)"},
    {"attention_indexed", "Causal attention over a paged KV cache, to the keys that an indexer chooses"},
    {"attention_chunked", "Causal attention over a paged KV cache, in chunks of positions"},
    {"attention_sinks", "Causal attention over a paged KV cache, with sinks"},
    {"avg_pool", "Average pooling"},
    {"avg_unpool", "Gradient of average pooling"},
    {"batch_norm", "Batch normalization, training"},
    {"batch_norm_backward", "Gradient of batch normalization"},
    {"batch_norm_inference", "Batch normalization, inference"},
    {"bce_with_logits", "Binary cross-entropy loss on logits"},
    {"bitcast", "Reinterpretation of bits"},
    {"bitwise_and", "Bitwise AND"},
    {"bitwise_not", "Bitwise NOT"},
    {"bitwise_or", "Bitwise OR"},
    {"bitwise_xor", "Bitwise exclusive OR"},
    {"broadcast_to", "Broadcast"},
    {"call", "Custom function"},
    {"causal_conv", "Causal depthwise convolution over sequences, with a state"},
    {"causal_conv_backward", "Gradient of causal_conv"},
    {"cast", "Conversion of the data type"},
    {"ceil", "Ceiling"},
    {"celu", "Continuously differentiable exponential linear unit (CELU)"},
    {"clamp", "Clamp (clip)"},
    {"concat", "Concatenation"},
    {"conv", "Convolution"},
    {"conv_backward_filter", "Gradient of convolution with respect to the filter"},
    {"conv_transpose", "Transposed convolution (deconvolution)"},
    {"cos", "Cosine"},
    {"cosh", "Hyperbolic cosine"},
    {"cross_entropy", "Cross-entropy loss"},
    {"cross_entropy_backward", "Gradient of the cross-entropy loss"},
    {"cumprod", "Cumulative product"},
    {"cumsum", "Cumulative sum (prefix sum)"},
    {"delta_rule", "Gated delta rule (linear attention) over sequences, with a state"},
    {"delta_rule_backward", "Gradient of delta_rule"},
    {"dequantize_linear", "Linear dequantization"},
    {"dft", "Discrete Fourier transform (FFT), complex"},
    {"div", "Division"},
    {"elu", "Exponential linear unit (ELU)"},
    {"entmax", "Entmax"},
    {"eq", "Equal"},
    {"erf", "Error function"},
    {"exp", "Exponential function"},
    {"expert_linear", "Linear layer of selected experts (mixture of experts)"},
    {"expert_linear_backward", "Gradient of expert_linear"},
    {"expm1", "Exponential function minus 1"},
    {"fill_like", "Constant tensor"},
    {"floor", "Floor"},
    {"fmod", "Remainder with the sign of the dividend"},
    {"gated_linear", "Gated linear layer (SwiGLU, GeGLU), fused"},
    {"gather", "Gather rows (embedding lookup)"},
    {"gather_elements", "Gather elements"},
    {"gather_nd", "Gather slices"},
    {"ge", "Greater or equal"},
    {"geglu", "Gated GELU (GeGLU)"},
    {"gelu", "Gaussian error linear unit (GELU)"},
    {"group", "Split of the last dimension"},
    {"group_norm", "Group normalization"},
    {"group_norm_backward", "Gradient of group normalization"},
    {"gru", "Gated recurrent unit (GRU)"},
    {"gru_backward", "Gradient of GRU"},
    {"gt", "Greater"},
    {"hadamard", "Rotation by a Hadamard matrix"},
    {"hard_sigmoid", "Hard sigmoid"},
    {"hard_swish", "Hard swish"},
    {"irfft", "Inverse Fourier transform (FFT) to real numbers"},
    {"irfft_backward", "Gradient of irfft"},
    {"isfinite", "Test for finite numbers"},
    {"isinf", "Test for infinity"},
    {"isnan", "Test for NaN"},
    {"kv_put", "Write into the KV cache"},
    {"layer_norm", "Layer normalization"},
    {"le", "Less or equal"},
    {"leaky_relu", "Leaky rectified linear unit"},
    {"linear", "Linear layer (fully connected), also with quantized weights"},
    {"linear_act", "Linear layer and activation, fused"},
    {"linear_add", "Linear layer and residual addition, fused"},
    {"linears", "Two or three linear layers of one input, fused"},
    {"log", "Natural logarithm"},
    {"log1p", "Natural logarithm of 1 + x"},
    {"log_softmax", "Logarithm of softmax"},
    {"logical_and", "Logical AND"},
    {"logical_not", "Logical NOT"},
    {"logical_or", "Logical OR"},
    {"logical_xor", "Logical exclusive OR"},
    {"logsumexp", "Logarithm of the sum of exponentials"},
    {"lp_pool", "Power-average (Lp) pooling"},
    {"lstm", "Long short-term memory (LSTM)"},
    {"lstm_backward", "Gradient of LSTM"},
    {"lt", "Less"},
    {"matmul", "Matrix multiplication (matrix product)"},
    {"matmul_weight", "Matrix multiplication by a weight, also a quantized one"},
    {"max", "Maximum, elementwise"},
    {"max_pool", "Max pooling"},
    {"max_unpool", "Max unpooling"},
    {"mean", "Mean (reduction)"},
    {"min", "Minimum, elementwise"},
    {"mish", "Mish activation"},
    {"mod", "Remainder with the sign of the divisor (modulo)"},
    {"mse", "Mean squared error loss"},
    {"mul", "Multiplication"},
    {"ne", "Not equal"},
    {"neg", "Negation"},
    {"nll", "Negative log-likelihood loss"},
    {"nll_backward", "Gradient of the negative log-likelihood loss"},
    {"norm_add", "RMS normalization and residual addition, fused"},
    {"one_hot", "One-hot encoding"},
    {"pad", "Padding"},
    {"pad_back", "Gradient of padding"},
    {"plane_gather", "Gather within planes"},
    {"pointwise", "Fused chain of elementwise operations"},
    {"pow", "Power"},
    {"pow_scalar", "Power with a constant exponent"},
    {"prelu", "Parametric rectified linear unit (PReLU)"},
    {"prod", "Product (reduction)"},
    {"qk_norm_rope", "RMS normalization of queries and keys and rotary position embedding, fused"},
    {"quantize_linear", "Linear quantization"},
    {"random_normal", "Normal random numbers"},
    {"random_uniform", "Uniform random numbers"},
    {"recip", "Reciprocal"},
    {"relu", "Rectified linear unit (ReLU)"},
    {"repeat", "Repetition of entries"},
    {"reshape", "Reshape"},
    {"reshape_like", "Reshape to the shape of another tensor"},
    {"rfft", "Fourier transform (FFT) of real numbers"},
    {"rfft_backward", "Gradient of rfft"},
    {"rms_norm", "RMS normalization"},
    {"rnn", "Recurrent layer (Elman RNN)"},
    {"rnn_backward", "Gradient of RNN"},
    {"rope", "Rotary position embedding (RoPE)"},
    {"rope_put", "Rotary position embedding and write into the KV cache, fused"},
    {"rope_table", "Rotary position embedding from tables"},
    {"round", "Rounding"},
    {"rsqrt", "Reciprocal square root"},
    {"safe_log", "Logarithm of softplus, bounded"},
    {"sample_token", "Sampling of a token (top-k, nucleus, min-p, temperature)"},
    {"scale", "Multiplication by a constant"},
    {"scaled_softmax", "Softmax of scaled inputs"},
    {"scatter_add", "Scatter-add of rows"},
    {"scatter_add_elements", "Scatter-add of elements"},
    {"scatter_elements", "Scatter elements"},
    {"scatter_nd", "Scatter slices"},
    {"sdpa", "Scaled dot-product attention"},
    {"sdpa_grad", "Gradient of scaled dot-product attention"},
    {"selective_scan", "Recurrence of state-space models (Mamba, Mamba 2)"},
    {"selective_scan_backward", "Gradient of selective_scan"},
    {"selu", "Scaled exponential linear unit (SELU)"},
    {"shift_left", "Bit shift to the left"},
    {"shift_right", "Bit shift to the right"},
    {"shrink", "Shrinkage (hard or soft)"},
    {"sigmoid", "Logistic sigmoid"},
    {"sign", "Sign"},
    {"silu", "Sigmoid linear unit (SiLU, swish)"},
    {"sin", "Sine"},
    {"sinh", "Hyperbolic sine"},
    {"slice", "Slice"},
    {"slice_put", "Gradient of slice"},
    {"slice_step", "Slice with a step"},
    {"slice_step_put", "Gradient of slice_step"},
    {"smooth_l1", "Smooth L1 loss (Huber)"},
    {"smooth_max_mean", "Mean with the weights of smooth max pooling"},
    {"smooth_max_pool", "Smooth max pooling (log-sum-exp)"},
    {"smooth_max_unpool", "Gradient of smooth max pooling"},
    {"softcap", "Soft cap of logits"},
    {"softmax", "Softmax"},
    {"softplus", "Softplus"},
    {"softsign", "Softsign"},
    {"spectral_conv1d_rfft", "Spectral convolution (Fourier neural operator)"},
    {"spectral_conv1d_rfft_backward", "Gradient of the spectral convolution"},
    {"spread", "Gradient of sum and mean"},
    {"sqrt", "Square root"},
    {"square", "Square"},
    {"sub", "Subtraction"},
    {"sum", "Sum (reduction)"},
    {"sum_to", "Sum to a smaller shape"},
    {"swiglu", "Gated SiLU (SwiGLU)"},
    {"tan", "Tangent"},
    {"tanh", "Hyperbolic tangent"},
    {"tanh_prime", "Gradient of tanh"},
    {"thresholded_relu", "Thresholded rectified linear unit"},
    {"topk", "Top-k selection and sorting"},
    {"transpose", "Transposition (permutation of dimensions)"},
    {"tril", "Lower triangular part"},
    {"triu", "Upper triangular part"},
    {"uncat", "Part of a concatenation"},
    {"where", "Selection by a condition"},
    {"wkv7", "Recurrence of RWKV-7 over sequences, with a state"},
    {"wkv7_backward", "Gradient of wkv7"},
};

static const char *find_term(const char *name)
{
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        if (!strcmp(terms[i][0], name)) return terms[i][1];
    return NULL;
}

/* ---- the contract ---------------------------------------------------------------------------- */

/* The facts of an op by one of its names. */
static void list_op(zt_ctx *ctx, const zt_opinfo *info, const char *name)
{
    for (int k = 0; k < info->n_in; k++)
        printf("%s in %d %s%s\n", name, k + 1, info->in_name[k], k < info->def->n_required ? "" : " optional");
    for (int k = 0; k < info->n_out; k++) printf("%s out %d %s\n", name, k + 1, info->out_name[k]);
    for (int k = 0; k < info->n_attrs; k++) {
        printf("%s attr %s %s ", name, info->attrs[k].name, kind_name[info->attrs[k].kind]);
        put_default(ctx, info, &info->attrs[k]);
        putchar('\n');
    }
}

/* ---- which types ----------------------------------------------------------------------------- */

/* Does the row take some case of it with input 0's dtype, wherever that stands, replaced by t; and
 * has the engine a kernel for that? */
static void probe(zt_engine *e, zt_op op, zt_dtype t, bool *taken, bool *kernel)
{
    zt_case c;
    *taken = *kernel = false;
    for (int i = 0; zt_op_case(op, i, &c) && !*kernel; i++) {
        const zt_type *in[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT];
        zt_dtype was = c.in[0].dtype;
        for (int k = 0; k < zt_op_info(op)->n_in; k++) {
            if (c.fill[k] == ZT_FILL_ABSENT) continue;
            if (c.in[k].dtype == was) c.in[k].dtype = t;
            in[k] = &c.in[k];
        }
        if (zt_op_infer(NULL, op, c.attrs, in, out)) continue;
        *taken = true;
        *kernel = e->vt->has(e, op, c.attrs, in, out);
    }
}

static void put_types(zt_engine *cpu, zt_op op)
{
    int n_taken = 0, n_more = 0;
    zt_dtype more[ZT_DTYPE_COUNT];
    printf("Types of\n.Ar %s :\n", zt_op_info(op)->in_name[0]);
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        bool taken, kernel;
        probe(cpu, op, (zt_dtype)t, &taken, &kernel);
        if (taken && !kernel) more[n_more++] = (zt_dtype)t;
        if (kernel) printf("%s%s", n_taken++ ? " " : "", zt_dtype_get((zt_dtype)t)->name);
    }
    for (int i = 0; i < n_more; i++)
        printf("%s%s", i ? " " : n_taken ? "; on ref only " : "on ref only ", zt_dtype_get(more[i])->name);
    puts(".");
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char head[] =
    ".Dd November 26, 2026\n"
    ".Dt ZT-OPS 7\n"
    ".Os\n"
    ".Sh NAME\n"
    ".Nm zt-ops\n"
    ".Nd operations of zt programs\n"
    ".Sh DESCRIPTION\n"
    "A program is a list of operations (ops) on tensors, one a line:\n"
    ".Bd -literal -offset indent\n"
    "y, rstd = rms_norm x g eps=1e-06\n"
    ".Ed\n"
    ".Pp\n"
    "Outputs are before the equals sign; inputs and then attributes follow the name.\n"
    "Inputs in brackets may be absent; an absent input before another is written\n"
    ".Ql _ .\n"
    "Omitted attributes have the default shown here.\n"
    "In C each op is a function,\n"
    ".Fn zt_eager_rms_norm run x g attrs rstd ,\n"
    "and for building a program\n"
    ".Fn zt_program_rms_norm .\n"
    ".Pp\n"
    "Kinds of attributes: i64 is an integer, f64 a number, word a keyword, dims a list of dimensions,\n"
    "ints a list of integers, str a string, func the name of a custom function.\n"
    ".Pp\n"
    "A block type is a quantized type whose elements share scales; plain types are all others.\n"
    "ln is the natural logarithm.\n"
    "Shapes are row-major.\n"
    "A negative axis counts from the last; an empty list of axes means all of them.\n"
    "Broadcasting aligns shapes at their last dimensions and repeats dimensions of 1.\n"
    "For squeezing and unsqueezing use\n"
    ".Ic reshape ,\n"
    "for splitting\n"
    ".Ic slice .\n"
    ".Pp\n"
    "A gradient is either implemented by the op, or derived by expansion into simpler ops.\n"
    "The types listed are those of the first input, and of other inputs of that type, for which the cpu engine\n"
    "has a kernel;\n"
    "the reference engine (ref) runs every op in f64.\n"
    ".Sh CONTRACT\n"
    "Ops are never removed; a renamed op is still accepted by its old name.\n"
    "The names, order and presence of inputs and outputs, the names, kinds and defaults of\n"
    "attributes, and their meaning do not change: a new meaning is a new op, or a new attribute\n"
    "whose default keeps the old one.\n"
    "There is one op for each meaning.\n"
    "A result with a given destination\n"
    ".Pq Fn zt_run_into\n"
    "must have the type of that destination, whose previous content is not read.\n"
    "Each change of behaviour has a decision record in\n"
    ".Pa docs/decisions .\n"
    ".Sh OPS\n"
    ".Bl -tag -width Ds\n";

static const char tail[] = ".El\n"
                           ".Sh EXAMPLES\n"
                           "Run an operation on numbers:\n"
                           ".Bd -literal -offset indent\n"
                           "printf \\(aq%s\\en\\(aq \\(aqzt program 1\\(aq \\(aqin x: f32[n]\\(aq \\e\n"
                           "    \\(aqy = softmax x\\(aq \\(aqout y = y\\(aq >softmax.zt\n"
                           "printf \\(aq1\\en2\\en3\\en\\(aq | zt\\-run \\-m softmax.zt\n"
                           ".Ed\n"
                           ".Pp\n"
                           "Measure its speed, and the cost of each operation of a program:\n"
                           ".Bd -literal -offset indent\n"
                           "zt\\-bench op \\(aqsoftmax f32[64,64]\\(aq \\-t 1 \\-r 1\n"
                           "zt\\-trace stats \\-\\-by step \\-\\-bind n=64 softmax.zt\n"
                           ".Ed\n"
                           ".Sh SEE ALSO\n"
                           ".Xr zt-bench 1 ,\n"
                           ".Xr zt-run 1 ,\n"
                           ".Xr zt-trace 1 ,\n"
                           ".Xr zt-program 5 ,\n"
                           ".Xr zt 7\n";

/* Text of a row: a sentence begins a line; a line cannot begin with a dot or a quote, and a backslash
 * is written \\e. A full stop ends it. */
static void put_text(const char *s)
{
    char last = 0;
    for (bool first = true; *s; s++) {
        if (first && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
        first = s[0] == '.' && s[1] == ' ';
        if (*s == '\\')
            fputs("\\e", stdout);
        else
            putchar(*s);
        last = *s;
        if (!first) continue;
        putchar('\n');
        s++;
    }
    puts(last == '.' ? "" : ".");
}

static void put_item(zt_ctx *ctx, const zt_opinfo *info)
{
    fputs(".It Xo\n", stdout);
    for (int k = 0; k < info->n_out; k++) printf(".Ar %s%s\n", info->out_name[k], k + 1 < info->n_out ? " ," : "");
    printf("=\n.Ic %s\n", info->name);
    for (int k = 0; k < info->n_in; k++) printf(k < info->def->n_required ? ".Ar %s\n" : ".Op Ar %s\n", info->in_name[k]);
    for (int k = 0; k < info->n_attrs; k++) {
        printf(".Op Cm %s Ns = Ns ", info->attrs[k].name);
        put_default(ctx, info, &info->attrs[k]);
        putchar('\n');
    }
    fputs(".Xc\n", stdout);
}

static void put_attrs(const zt_opinfo *info)
{
    if (info->n_attrs == 0) return;
    fputs("Attributes:\n", stdout);
    for (int k = 0; k < info->n_attrs; k++)
        printf(".Cm %s\n%s%s\n", info->attrs[k].name, kind_name[info->attrs[k].kind], k + 1 < info->n_attrs ? "," : ".");
}

static void put_nature(zt_op op, const zt_opinfo *info)
{
    static const struct {
        unsigned flag;
        const char *text;
    } flags[] = {
        {ZT_OPF_ELEMENTWISE, "elementwise"},
        {ZT_OPF_COMMUTATIVE, "commutative"},
        {ZT_OPF_VIEW, "a view: no copy"},
        {ZT_OPF_INPLACE, "may work in place"},
        {ZT_OPF_RANDOM, "random"},
        {ZT_OPF_SAME, "bit-exact with its expansion"},
        {ZT_OPF_CALLERS, "runs undivided, in the caller's thread"},
    };
    const zt_opdef *d = info->def;
    printf("Gradient: %s", d->vjp ? "yes" : zt_op_has_gradient(op) ? "by expansion" : "none");
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (d->flags & flags[i].flag) printf("; %s", flags[i].text);
    if (d->donates) printf("; consumes %s", info->in_name[0]);
    for (int k = 1; k < d->donates; k++) printf(" and %s", info->in_name[k]);
    for (int k = 0, n = 0; k < info->n_in; k++)
        if (d->weights >> k & 1) printf("%s %s", n++ ? "," : "; may be of a block type:", info->in_name[k]);
    puts(".");
}

static void put_op(zt_ctx *ctx, zt_engine *cpu, zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    put_item(ctx, info);
    if (find_term(info->name)) printf("%s:\n", find_term(info->name));
    put_text(info->def->synopsis);
    if (zt_op_old_name(op)) printf("Former name:\n.Ic %s ,\nwhich is still accepted.\n", zt_op_old_name(op));
    fputs(".Pp\n", stdout);
    put_attrs(info);
    put_nature(op, info);
    put_types(cpu, op);
}

/* The next op by name after `last` (NULL: the first), or NULL. */
static const zt_opinfo *next_op(const char *last, zt_op *op)
{
    const zt_opinfo *best = NULL;
    for (int i = 0; i < ZT_OP_COUNT; i++) {
        const zt_opinfo *info = zt_op_info((zt_op)i);
        if (last && strcmp(info->name, last) <= 0) continue;
        if (best && strcmp(info->name, best->name) > 0) continue;
        best = info;
        *op = (zt_op)i;
    }
    return best;
}

/* ---- architectures of language models -------------------------------------------------------- */

/* ".Li llama , qwen2\nand\n.Li bert .", in lines of four. */
static void list_archs(bool encoder, const char *end)
{
    int count = 0, number = 0;
    for (size_t i = 0; zt_arch_at(i); i++) count += zt_arch_at(i)->encoder == encoder;
    for (size_t i = 0; zt_arch_at(i); i++) {
        if (zt_arch_at(i)->encoder != encoder) continue;
        bool last = number == count - 1;
        if (last && count > 1) printf("\nand");
        if (last || number % 4 == 0) printf("%s.Li", number ? "\n" : "");
        printf(" %s%s", zt_arch_at(i)->name, last ? end : number < count - 2 ? " ," : "");
        number++;
    }
    putchar('\n');
}

static int put_architectures(void)
{
    puts("Supported architectures are");
    list_archs(false, " ,");
    puts("and with\n.Fl -embed\nalso");
    list_archs(true, " .");
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--architectures")) return put_architectures();
    bool list = argc == 2 && !strcmp(argv[1], "--list");
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *cpu = ctx ? zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1}) : NULL;
    zt_op op = (zt_op)0;
    if (!cpu) return 1;
    if (!list) fputs(head, stdout);
    for (const zt_opinfo *i = next_op(NULL, &op); i; i = next_op(i->name, &op)) {
        const char *old_name = zt_op_old_name(op);
        if (list && old_name) {
            printf("%s renamed %s\n", old_name, i->name);
            list_op(ctx, i, old_name);
        }
        if (list)
            list_op(ctx, i, i->name);
        else
            put_op(ctx, cpu, op);
    }
    if (!list) fputs(tail, stdout);
    zt_engine_close(cpu);
    zt_ctx_free(ctx);
    return fflush(stdout) ? 1 : 0;
}
