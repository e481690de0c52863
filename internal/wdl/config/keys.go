package config

import (
	"reflect"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// sections is every key with its meaning and what it accepts, in the order of
// the file. Reference prints it, the checks read it, and a test compares it
// with the structs field by field.
func sections() []section {
	return slices.Concat(dataSections(), inputSections(), modelSections(), trainSections())
}

// The values some keys choose from.
func encodings() []string   { return schema.Encodings() }
func poolings() []string    { return []string{"sum", "mean", "sqrtn"} }
func initKinds() []string   { return []string{"normal", "uniform", "zero"} }
func kinds() []string       { return []string{"wide_deep", "deepfm", "dcn_v2", "xdeepfm"} }
func activations() []string { return []string{"relu", "tanh", "sigmoid", "identity"} }
func strategies() []string  { return []string{"auto", "rows", "pooled", "replicated"} }
func numbers() []string     { return []string{"float32", "bfloat16"} }
func weights() []string     { return []string{"he", "pytorch"} }
func precisions() []string  { return []string{"fp32", "bf16"} }
func schedules() []string   { return []string{"constant", "linear", "cosine", "step", "plateau"} }

// topics is what is to be known of an address of a topic; package kafka reads it.
const topics = "Where the records are and how they become fields.\n" +
	"\n" +
	"A topic is kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?OPTION=VALUE&...]. Each of its records is what format says: a line\n" +
	"of csv, tsv, criteo, libsvm or libffm (without a header: fields names its fields), a JSON object (jsonl), or a\n" +
	"tf.Example (tfrecord). Options, without which there is neither TLS nor a user:\n" +
	"\n" +
	"  group=G           commits offsets under this group name when a checkpoint contains them\n" +
	"  start=latest      follow: begin with what comes next; earliest (the default): with the oldest record. Where the\n" +
	"                    group has committed offsets, a new training begins there, a resumed one at its checkpoint\n" +
	"  timeout=20s       after so long without an answer a broker is given up (100ms to 1h)\n" +
	"  tls=true          TLS, by the authorities of the system\n" +
	"  ca=FILE           TLS, by the authorities of a PEM file instead\n" +
	"  sasl=MECHANISM    plain, scram-sha-256 or scram-sha-512, with credentials; plain wants TLS, or tls=false\n" +
	"  credentials=FILE  the lines username=NAME and password=SECRET; read again at each handshake, so it may be replaced\n" +
	"\n" +
	"  train: [\"kafka://broker-1:9092,broker-2:9092/clicks?group=ctr&start=latest\"]\n" +
	"  train: [\"kafka://broker:9093/clicks?group=ctr&ca=/etc/ctr/ca.pem&sasl=scram-sha-512&credentials=/etc/ctr/kafka\"]\n" +
	"\n" +
	"Without follow a topic is read as far as it goes when the job begins, or a range of it: kafka://broker:9092/clicks#0:100-200\n" +
	"is partition 0 from offset 100 up to, not including, 200. Addresses are written into run directories and shown in\n" +
	"errors, which contain no secret.\n" +
	"\n" +
	"An expression of derive or where is made of fields (`zip code` between backticks), numbers, 'texts', + - * / %,\n" +
	"== != < <= > >=, in (1, 2), and, or, not, and log, floor, abs, min, max, missing(x), if(condition, x, y). A field\n" +
	"compared with a text or another field by == is a text, else a number. A condition is 1 or 0. What is computed\n" +
	"from a missing value is missing, as is x / 0; where keeps the records for which its condition is 1."

const labelAbout = "Which field is a label, and what of it is predicted. labels are further ones: each is a number, which is 0 or 1 unless it\n" +
	"has a threshold or kind: number. The network of each label is its own, the embeddings are shared, and the loss is the sum\n" +
	"over the labels. Early stopping and schedules watch the first label."

func dataSections() []section {
	return []section{
		{"", reflect.TypeFor[Config](), fileAbout, []key{
			{name: "data", about: "where the records are"},
			{name: "label", about: "what is predicted"},
			{name: "labels", about: "further labels, each predicted by a tower of its own over the same embeddings"},
			{name: "features", about: "inputs of the model, each made of one field"},
			{name: "crosses", about: "features of the wide part made of several others"},
			{name: "tables", about: "embedding tables that differ from the model's settings; all others need no entry"},
			{name: "model", about: "the network"},
			{name: "train", about: "how it is trained"},
		}},
		{"data", reflect.TypeFor[schema.Source](), topics, []key{
			{name: "train", def: "required", about: "training data: files, globs, topics (kafka://, see above), remote files (https://, s3://, gs://), folders (all files directly in them, by name; those that begin with . or _ left out) or builtin:NAME", filled: true},
			{name: "test", def: "none", about: "evaluated once after training"},
			{name: "valid", def: "none", about: "evaluated after each epoch; early stopping and plateau schedules watch it"},
			{name: "negative_rate", def: "1", about: "share of the training records with label 0 that is used; the model's probabilities stay those of all records", rng: "[1e-06, 1]"},
			{name: "valid_fraction", def: "0", about: "instead of valid: this share of train is held out, records at random unless valid_time or valid_group is given", rng: "[0, 1)"},
			{name: "valid_time", def: "none", about: "field with numbers or ISO dates: the newest records by it are held out, those of one time together"},
			{name: "valid_group", def: "none", about: "field, such as a user: the share is one of its values, each held out with all its records or not at all"},
			{name: "format", def: "csv", about: "of every file, and of a topic's records; gzip, zstd and snappy files are unpacked", choices: schema.Formats()},
			{name: "delimiter", def: "comma for csv, tab for tsv", about: "one byte between fields"},
			{name: "header", def: "false", about: "the first line of each file names the fields"},
			{name: "fields", def: "none", about: "names of the fields in file order, where there is no header", filled: true},
			{name: "comment", def: "none", about: "lines that start with this are skipped"},
			{name: "multiline", def: "false", about: "quoted fields of csv may hold line breaks; every rank then reads a file from its beginning"},
			{name: "missing", def: "none", about: "values that mean missing; the empty one always does"},
			{name: "derive", def: "none", about: "columns that expressions compute, used as fields are: {liked: \"rating >= 4\", tip_share: \"tips / fare\"}"},
			{name: "where", def: "all", about: "condition, such as \"fare > 0\", of the records that are used in training and evaluation; the others are counted"},
			{name: "max_bad", def: "0", about: "records that cannot be used and are left out, of each of train, valid and test; one more ends the job", rng: "[0, inf)"},
			{name: "index", def: "none", about: "feature index, as wdlrun data index makes, whose vocabularies and statistics are used instead of those of train"},
			{name: "follow", about: "train is folders or topics that grow"},
		}},
		{"data.follow", reflect.TypeFor[schema.Follow](), "New files of train's folders (or of its globs) are trained on as they come, in the order of their names, or new\n" +
			"records of its topics (kafka://HOST:PORT/TOPIC?group=G): each once, in spans of those that are there\n" +
			"at one look. Files are to be moved there when they are whole. One epoch.", []key{
			{name: "on", def: "false", about: "train grows"},
			{name: "mark", def: "_SUCCESS", about: "file that marks its folder as complete"},
			{name: "idle", def: "0, never", about: "seconds without anything new after which training ends", rng: "[0, 31536000]"},
			{name: "poll", def: "1", about: "seconds between two looks", rng: "(0, 86400]"},
			{name: "files", def: "64", about: "most files of a span; those of a span are shuffled together", rng: "[1, 65536]"},
			{name: "rows", def: "65536", about: "most records of a topic's partition in a span", rng: "[1, 1073741824]"},
			{name: "steps", def: "0, none", about: "training ends after this step", rng: "[0, inf)"},
		}},
	}
}

func inputSections() []section {
	return []section{
		{"label, labels[]", reflect.TypeFor[schema.Label](), labelAbout, []key{
			{name: "field", def: "required", about: "the field"},
			{name: "positive", def: `["1"], negative ["0"], without a threshold`, about: "values that are 1", filled: true},
			{name: "negative", def: "every other value", about: "values that are 0; any other is then an error"},
			{name: "threshold", def: "none", about: "instead of positive: 1 where the number is at least this", rng: "(-inf, inf)"},
			{name: "kind", def: "binary", about: "binary: 0 or 1, predicted as a probability; number: predicted as a number", choices: []string{"binary", "number"}},
			{name: "loss", def: "squared", about: "of a number: squared, or poisson for counts, whose logarithm is the logit", choices: []string{"squared", "poisson"}},
			{name: "weight", def: "none", about: "label alone: field with the weight of each sample, from 0 to 1048576; its samples count so often in training and in metrics"},
			{name: "loss_weight", def: "1", about: "factor of the label's loss where there are several labels", rng: "(0, 1e+06]"},
		}},
		{"features[]", reflect.TypeFor[schema.Feature](), "One input made of one field; a field may feed several. Sparse encodings (keys of a table):\n" +
			"vocabulary (strings of the training data, all others share one key), hash (of the string), id (the\n" +
			"64-bit integer itself), quantile and boundaries (number of the interval), hour, weekday and month (of a date).\n" +
			"Dense encodings (a number for the deep part): standardise ((x - mean) / deviation), log (sign(x) ln(1 + |x|)),\n" +
			"raw, age (days before the newest date of the training data, or before reference, standardised).\n" +
			"\n" +
			"A date is iso (2024-05-31, 2024-05-31T12:30:00+02:00), unix, unix_ms, unix_us, unix_ns, or what a pattern of\n" +
			"%Y %y %m %b %d %H %I %p %M %S %f %z describes: %y%m%d%H is Avazu's 14102100. Without format, training takes\n" +
			"iso, unix…, %y%m%d%H or %Y%m%d, whichever reads the most values of its data. A date without a zone is in UTC.\n" +
			"A value that is not a date is missing; training reports how many there are.", []key{
			{name: "name", def: "the field, or field_encode if that is taken", about: "name of the feature"},
			{name: "field", def: "required", about: "the field it is made of"},
			{name: "encode", def: "required", about: "the encoding", choices: encodings()},
			{name: "separator", def: "none", about: "vocabulary, hash, id: splits a field of several values"},
			{name: "weights", def: "none", about: "vocabulary, hash, id: field with a number for each of the values, by which embeddings are multiplied"},
			{name: "buckets", def: "quantile 33, hash none", about: "quantile: how many; hash: modulus", rng: "[1, inf)"},
			{name: "boundaries", def: "none", about: "boundaries: ascending limits of the intervals", rng: "(-inf, inf)", filled: true},
			{name: "min_count", def: "1", about: "vocabulary: rarer strings share the unknown key, at 1 a tenth of those that occur once", rng: "[1, inf)"},
			{name: "max_size", def: "none", about: "vocabulary: only so many of the most frequent strings keep their own key", rng: "[1, inf)"},
			{name: "log", def: "false", about: "standardise, age: take sign(x) ln(1 + |x|) first"},
			{name: "format", def: "found in the training data", about: "hour, weekday, month, age: how dates are written"},
			{name: "zone", def: "UTC", about: "hour, weekday, month: time zone, such as Europe/Berlin (if hosts have tzdata) or +02:00"},
			{name: "reference", def: "the newest date of train", about: "age: days before this date, in the iso format"},
			{name: "table", def: "the feature's name", about: "sparse: table it is looked up in; features may share one"},
			{name: "wide", def: "model.wide", about: "sparse: part of the wide model"},
			{name: "deep", def: "model.deep", about: "sparse: part of the deep model"},
		}},
		{"crosses[]", reflect.TypeFor[schema.Cross](), "A wide feature with one key per combination of the values of others.", []key{
			{name: "name", def: "the features joined by _x_", about: "name of the cross"},
			{name: "of", def: "required", about: "names of 2 to 8 sparse features", filled: true},
			{name: "buckets", def: "none", about: "modulus of the combined hash", rng: "[1, inf)"},
			{name: "table", def: "the cross's name", about: "table of its weights"},
		}},
	}
}

const modelAbout = "logit = wide weights of all keys + network(x), x = the embeddings and dense inputs. The network is, by kind,\n" +
	"wide_deep (Cheng et al. 2016)  MLP(x)\n" +
	"deepfm    (Guo et al. 2017)    MLP(x) + products of all pairs of embeddings\n" +
	"dcn_v2    (Wang et al. 2021)   MLP(cross(x)) or MLP(x) + w cross(x)\n" +
	"xdeepfm   (Lian et al. 2018)   MLP(x) + w CIN(embeddings)"

func modelSections() []section {
	return []section{
		{"tables[]", reflect.TypeFor[Table](), "How one table differs. A table is named by the features and crosses that use it.", []key{
			{name: "name", def: "required", about: "the table"},
			{name: "dim", def: "model.embedding_dim", about: "width of its embeddings", rng: "[1, 4096]"},
			{name: "pooling", def: "model.pooling", about: "how several values of a sample become one", choices: poolings()},
			{name: "init", def: "model.init", about: "how its embeddings start"},
			{name: "deep", def: "train.optimizer.deep", about: "rule of its embeddings"},
			{name: "wide", def: "train.optimizer.wide", about: "rule of its wide weights"},
			{name: "l2", def: "train.l2", about: "its L2 strengths"},
			{name: "values", def: "float32", about: "of its rows in memory; bfloat16 takes half and rounds stochastically", choices: numbers()},
			{name: "admit", about: "which keys get a row"},
			{name: "evict", about: "which rows are evicted; their keys start again from initial values"},
			{name: "wire", about: "numbers in which its rows and gradients travel between ranks"},
			{name: "strategy", def: "auto", about: "what of it travels: rows of distinct keys, bags pooled by the owners, nothing but gradients of rows replicated on every rank; auto takes what costs the fewest bytes by a sample of the data", choices: strategies()},
			{name: "tier", about: "bound of its memory, and where cold rows go"},
		}},
		{"tables[].admit", reflect.TypeFor[Admit](), "A key gets a row in its after-th step with a gradient. Occurrences are kept in checkpoints; if the counters change, counting restarts.", []key{
			{name: "after", def: "1", about: "steps in which a key must occur", rng: "[1, 255]"},
			{name: "counters", def: "4194304", about: "bytes of the sketch that counts, over all ranks; four for each key expected", rng: "[1024, 68719476736]"},
		}},
		{"tables[].evict", reflect.TypeFor[Evict](), "Age counts steps since the last gradient, the score is the number of gradients, halved every half_life steps.\n" +
			"max_rows is dealt to the 1024 shards of a table, at least one row to each: less than 1024 counts as 1024. A shard\n" +
			"past its share gives rows up though others have room, so that it does not matter how many ranks there are.", []key{
			{name: "age", def: "none", about: "an older row goes", rng: "[1, 2147483647]"},
			{name: "max_rows", def: "none", about: "rows over all ranks, in 1024 even shares; past a share its oldest or those of the lowest score go", rng: "[1, inf)"},
			{name: "half_life", def: "none, no score", about: "steps", rng: "[1, 2147483647]"},
			{name: "min_score", def: "none", about: "a row of a lower score goes", rng: "(0, inf)"},
		}},
		{"tables[].wire", reflect.TypeFor[Wire](), "bfloat16 halves the bytes; sums and updates stay float32.", []key{
			{name: "rows", def: "float32", about: "from owners to readers", choices: numbers()},
			{name: "gradients", def: "float32", about: "from readers to owners", choices: numbers()},
		}},
		{"tables[].tier", reflect.TypeFor[Tier](), "Past the memory, the rows that were not used for longest go to an unnamed file in dir and come back when they are used.", []key{
			{name: "dir", def: "required with memory", about: "existing folder on a fast local disk"},
			{name: "memory", def: "none", about: "MiB of this table on a rank", rng: "[1, 1073741824]"},
		}},
		{"tables[].l2", reflect.TypeFor[TableL2](), "L2 strengths of one table.", []key{
			{name: "deep", def: "train.l2.deep", about: "of its embeddings", rng: "[0, inf)"},
			{name: "wide", def: "train.l2.wide", about: "of its wide weights", rng: "[0, inf)"},
		}},
		{"model", reflect.TypeFor[Model](), modelAbout, []key{
			{name: "kind", def: "wide_deep", about: "the architecture", choices: kinds(), shown: true},
			{name: "wide", def: "true", about: "false leaves the linear part out; for dcn_v2, whose paper has none, false is the default"},
			{name: "deep", def: "true", about: "false leaves the MLP out: logistic regression"},
			{name: "embedding_dim", def: "8", about: "width of embeddings", rng: "[1, 4096]"},
			{name: "pooling", def: "sum", about: "how several values of a sample become one: sum, mean, or sum / sqrt(n)", choices: poolings()},
			{name: "init", about: "how embeddings start; wide weights start at 0"},
			{name: "hidden", def: "[128, 64]", about: "widths of the MLP's layers, up to 64", rng: "[1, 65536]", filled: true},
			{name: "activation", def: "relu", about: "after each hidden layer", choices: activations()},
			{name: "batch_norm", def: "false", about: "normalise each hidden layer over the global batch", shown: true},
			{name: "dropout", def: "0", about: "share of hidden units left out in training", rng: "[0, 1)", shown: true},
			{name: "weights", def: "he", about: "how the MLP's weights start: he (uniform, variance 2/in before relu, else Glorot's), pytorch (uniform within 1/sqrt(in), biases too)", choices: weights()},
			{name: "cross", about: "dcn_v2: its cross layers"},
			{name: "cin", about: "xdeepfm: feature maps of each layer of its interaction network, [32, 32] by default, up to 16 layers; the cost grows with the product of two layers' maps", rng: "[1, 4096]", filled: true},
		}},
		{"model.cross", reflect.TypeFor[Cross](), "Cross layers of dcn_v2: x' = x0 * (W x + b) + x, element by element, from x = x0, the input.", []key{
			{name: "layers", def: "3", about: "how many", rng: "[1, 16]"},
			{name: "rank", def: "0, full", about: "W as a product of two matrices of this inner width", rng: "[0, 65536]"},
			{name: "structure", def: "stacked", about: "stacked: the MLP reads what the cross layers make; parallel: both read the input", choices: []string{"stacked", "parallel"}},
		}},
		{"model.init, tables[].init", reflect.TypeFor[Init](), "How embedding rows start.", []key{
			{name: "kind", def: "normal", about: "normal (deviation scale), uniform (within ±scale) or zero", choices: initKinds()},
			{name: "scale", def: "0.05", about: "see kind", rng: "(0, 1000]"},
		}},
	}
}

func trainSections() []section {
	return []section{
		{"train", reflect.TypeFor[Train](), "How the model is trained.", []key{
			{name: "epochs", def: "1", about: "passes over the training data", rng: "[1, 1000000]"},
			{name: "batch", def: "none", about: "samples per rank and step; instead of global_batch", rng: "[1, 16777216]"},
			{name: "global_batch", def: "256", about: "samples of all ranks per step: the same training on any number of ranks", rng: "[1, 67108864]"},
			{name: "seed", def: "0", about: "of initial values, shuffling, hold-out and dropout", shown: true},
			{name: "shuffle", def: "true", about: "a random order, another in each epoch: uniform up to 64 MiB of records, beyond drawn from 1,024 random groups of 64 KiB; false is the order of the files"},
			{name: "slots", def: "0", about: "a power of two: cut the global batch into so many and sum in their order, so that 1, 2, 4 … ranks give the same bits", rng: "[0, 256]"},
			{name: "threads", def: "1", about: "threads of each rank that work through its batch; another number rounds differently", rng: "[1, 256]"},
			{name: "precision", def: "fp32", about: "of the MLP's products; bf16 needs a CPU with AVX512_BF16 or AMX and keeps weights, sums and updates in fp32", choices: precisions()},
			{name: "mode", def: "wait", about: "of slow ranks: wait for them, drop what is late (it comes back first), or speculate: redo it elsewhere; -mode sets it", choices: []string{"wait", "drop", "speculate"}},
			{name: "backup", def: "0", about: "drop: microbatches of a step that may be late, 0: as many as pays; -backup sets it", rng: "[0, 4096]"},
			{name: "optimizer", about: "update rules"},
			{name: "scaling", def: "sqrt", about: "of batches over 256 samples; sqrt: sgd, adam and adamw take √(batch/256) times their learning_rate, and the batch grows from 256 to its size, never more than 1/32 of the samples trained on; none: rates as written, every batch whole", choices: []string{"sqrt", "none"}},
			{name: "l2", about: "penalty λ/2 ‖w‖² on weights: gradients grow by λ w"},
			{name: "class_weight", about: "factors by which the weights of samples are multiplied in training"},
			{name: "clip_norm", def: "0, none", about: "largest norm of the gradient of all parameters together", rng: "[0, inf)", shown: true},
			{name: "schedule", about: "factor of the learning rates over time"},
			{name: "eval_every", def: "1", about: "epochs, or spans of a stream, between evaluations of the validation data", rng: "[1, 1000000]"},
			{name: "eval_steps", def: "none", about: "instead of eval_every: steps between evaluations, counted from the first step of the training; the end of the last epoch is evaluated too", rng: "[1, inf)"},
			{name: "early_stop", about: "end when the validation data no longer improves; the best epoch is restored"},
			{name: "checkpoint", about: "when to save besides the end"},
			{name: "export", about: "where and how often to publish the model"},
		}},
		{"train.optimizer", reflect.TypeFor[Optimizer](), "Update rules. Each takes the keys of a rule, below.", []key{
			{name: "dense", def: "kind adam", about: "of the MLP and its biases"},
			{name: "deep", def: "kind adagrad", about: "of embeddings"},
			{name: "wide", def: "kind ftrl", about: "of wide weights and their bias"},
		}},
		{"a rule: train.optimizer.dense, .deep, .wide, tables[].deep, .wide", reflect.TypeFor[optim.Rule](), "An update rule and its constants.", ruleKeys()},
		{"train.l2", reflect.TypeFor[L2](), "L2 strengths λ; biases and BatchNorm have none.", []key{
			{name: "dense", def: "0", about: "of the MLP's weights", rng: "[0, inf)", shown: true},
			{name: "deep", def: "0", about: "of embeddings", rng: "[0, inf)", shown: true},
			{name: "wide", def: "0", about: "of wide weights", rng: "[0, inf)", shown: true},
			{name: "mode", def: "lazy", about: "lazy: rows of the batch only; dense: every row takes a step in every step, as dense frameworks do", choices: []string{"lazy", "dense"}},
		}},
		{"train.class_weight", reflect.TypeFor[Classes](), "Factors of the weights of samples by their first label, which is binary. Predictions shift with them: a factor of 3 for\n" +
			"positives about triples the odds. Metrics ignore it.", []key{
			{name: "positive", def: "1", about: "of samples with label 1", rng: "(0, 1e+06]"},
			{name: "negative", def: "1", about: "of samples with label 0", rng: "(0, 1e+06]"},
		}},
		{"train.schedule", reflect.TypeFor[Schedule](), "Factor of the learning rates. linear and cosine fall from 1 to min over all steps, step multiplies by\n" +
			"factor every every_steps, plateau after patience evaluations without improvement.", []key{
			{name: "kind", def: "constant", about: "the curve after the warm-up", choices: schedules()},
			{name: "warmup", def: "0", about: "steps in which the factor rises to 1", rng: "[0, inf)"},
			{name: "min", def: "0", about: "the factor falls no lower", rng: "[0, 1]"},
			{name: "factor", def: "0.1", about: "step, plateau: what each fall multiplies by", rng: "(0, 1)"},
			{name: "every_steps", def: "required by step", about: "step: steps between falls", rng: "[1, inf)"},
			{name: "patience", def: "1", about: "plateau: evaluations without improvement before a fall", rng: "[1, 1000000]"},
		}},
		{"train.early_stop", reflect.TypeFor[EarlyStop](), "Watches the validation data after each evaluation.", []key{
			{name: "patience", def: "0, never", about: "evaluations without improvement before the end", rng: "[0, 1000000]", shown: true},
			{name: "metric", def: "logloss", about: "what must improve; a plateau schedule watches it too. Without an AUC, because all samples have one label, auc means the log-loss", choices: []string{"auc", "logloss"}},
			{name: "min_delta", def: "0", about: "an improvement is larger than this", rng: "[0, 1]"},
		}},
		{"train.checkpoint", reflect.TypeFor[Checkpoint](), "One is always written at the end, and at the end of each epoch, full, or span of a stream. With both intervals whichever passes first counts.", []key{
			{name: "every_steps", def: "none", about: "steps between checkpoints", rng: "[1, inf)"},
			{name: "every_seconds", def: "600 without every_steps", about: "seconds between checkpoints", rng: "[1, 31536000]"},
			{name: "full_every", def: "10", about: "one in so many is full, others hold what changed since the one before; 1: all are", rng: "[1, 1000]"},
			{name: "keep", def: "3", about: "newest checkpoints that stay", rng: "[1, 10000]"},
		}},
		{"train.export", reflect.TypeFor[Export](), "Publishes the model while it is trained, for wdlrun serve: docs/serving.md. Cannot be combined with l2.mode: dense, which changes every row in every step.", []key{
			{name: "dir", def: "none: nothing is published", about: "folder of the versions, such as models/ctr, which all ranks reach"},
			{name: "every_seconds", def: "2", about: "seconds between versions", rng: "[1, 31536000]"},
			{name: "full_every", def: "100", about: "one version in so many is complete, others hold what changed since the one before", rng: "[1, 1000]"},
		}},
	}
}

// ruleKeys accept no explicit zero where optim takes zero for the default.
func ruleKeys() []key {
	return []key{
		{name: "kind", def: "see train.optimizer; required in tables", about: "the rule", choices: optim.Kinds()},
		{name: "learning_rate", def: byKind(func(r optim.Rule) float64 { return r.LearningRate }), about: "step size, see train.scaling; FTRL's alpha", rng: "(0, inf)"},
		{name: "beta1", def: byKind(func(r optim.Rule) float64 { return r.Beta1 }), about: "decay of the first moment", rng: "(0, 1)"},
		{name: "beta2", def: byKind(func(r optim.Rule) float64 { return r.Beta2 }), about: "decay of the second moment", rng: "(0, 1)"},
		{name: "beta", def: byKind(func(r optim.Rule) float64 { return r.Beta }), about: "added to the root of the sum of squares", rng: "(0, inf)"},
		{name: "epsilon", def: byKind(func(r optim.Rule) float64 { return r.Epsilon }), about: "added to the root", rng: "(0, inf)"},
		{name: "accumulator", def: byKind(func(r optim.Rule) float64 { return value(r.Accumulator) }), about: "initial sum of squares, of gradients of one sample; PyTorch's and DLRM's is 0", rng: "[0, inf)"},
		{name: "weight_decay", def: byKind(func(r optim.Rule) float64 { return value(r.WeightDecay) }), about: "a step multiplies weights by 1 − rate × weight_decay first: rows of the batch only, every row with train.l2.mode dense; biases too, as in the paper", rng: "[0, inf)"},
		{name: "l1", def: "0", about: "ftrl: L1 strength, gives zeros", rng: "[0, inf)"},
		{name: "l2", def: "0", about: "ftrl: L2 strength", rng: "[0, inf)"},
	}
}

func value(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// byKind writes a constant's default for each rule that has it.
func byKind(of func(optim.Rule) float64) string {
	text := ""
	for _, kind := range optim.Kinds() {
		if v := of(optim.Rule{Kind: kind}.Default()); v != 0 {
			if text != "" {
				text += ", "
			}
			text += kind + " " + number(v)
		}
	}
	return text
}
