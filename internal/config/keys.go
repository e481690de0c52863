package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// sections returns every key with its meaning and accepted values, in the order of the file.
// Reference prints it, the checks use it, and a test compares it with the structs field by
// field.
func sections() []section {
	return slices.Concat(dataSections(), registrySections(), inputSections(), modelSections(), trainSections(), sourceSections(), savingSections())
}

// Choices of keys.

func encodings() []string   { return schema.Encodings() }
func poolings() []string    { return []string{"sum", "mean", "sqrtn"} }
func initKinds() []string   { return []string{"normal", "uniform", "zero"} }
func activations() []string { return []string{"relu", "tanh", "sigmoid", "identity"} }
func strategies() []string  { return []string{"auto", "rows", "pooled"} }
func numbers() []string     { return []string{"float32", "bfloat16"} }
func weights() []string     { return []string{"he", "pytorch"} }
func precisions() []string  { return []string{"fp32", "tf32", "bf16"} }
func devices() []string     { return []string{"cpu", "gpu", "auto"} }
func schedules() []string   { return []string{"constant", "linear", "cosine", "step", "plateau"} }

// topics documents the address of a topic, which package kafka parses.
const topics = "Where the records are and how they become fields.\n" +
	"\n" +
	"A topic is kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?OPTION=VALUE&...]. format determines what its records are: lines of\n" +
	"csv, tsv, criteo, libsvm or libffm (without a header: fields names the fields), JSON objects (jsonl), tf.Examples\n" +
	"(tfrecord), or messages of avro or protobuf, whose schemas registry has. A value may have several lines. The fields _key,\n" +
	"_time and _header.NAME come from the record around the value; for lines, name them last in fields.\n" +
	"\n" +
	"The default is no TLS and no authentication. Options:\n" +
	"\n" +
	"  group=G           commits offsets under this group name when a checkpoint contains them\n" +
	"  start=latest      with follow: start with the next new record; earliest (the default): with the oldest. If the group\n" +
	"                    has committed offsets, a new training starts there. A resumed one starts at its checkpoint.\n" +
	"                    Partitions that are added later are read from their beginning\n" +
	"  reset=fail        where a new training starts if the topic does not have the offset that the group has committed:\n" +
	"                    earliest, latest, or fail (the default)\n" +
	"  timeout=20s       how long to wait for an answer of a broker (100ms to 1h). A training that follows a topic waits without\n" +
	"                    limit once it has read some of it\n" +
	"  tls=true          TLS with the certificate authorities of the system\n" +
	"  ca=FILE           TLS with the certificate authorities of a PEM file\n" +
	"  cert=FILE         PEM file of a client certificate; read at each handshake, so it may change\n" +
	"  key=FILE          PEM file of the key of cert\n" +
	"  sasl=MECHANISM    plain, scram-sha-256, scram-sha-512 or oauthbearer, with credentials; plain and oauthbearer require TLS\n" +
	"                    or tls=false\n" +
	"  credentials=FILE  contains the lines username=NAME and password=SECRET; read at each handshake, so it may change. For\n" +
	"                    oauthbearer: token=TOKEN, or token_url=URL, client_id=ID, client_secret=SECRET and scope=SCOPE\n" +
	"\n" +
	"  train: [\"kafka://broker-1:9092,broker-2:9092/clicks?group=ctr&start=latest\"]\n" +
	"  train: [\"kafka://broker:9093/clicks?group=ctr&ca=/etc/ctr/ca.pem&sasl=scram-sha-512&credentials=/etc/ctr/kafka\"]\n" +
	"\n" +
	"Without follow, a topic is read to its end at the start of the job. kafka://broker:9092/clicks#0:100-200 is a range:\n" +
	"partition 0 from offset 100 up to, not including, 200. Addresses are written to run directories and errors; they\n" +
	"contain no secret.\n" +
	"\n" +
	"An expression in derive or where consists of fields (`zip code` between backticks), numbers, 'strings', + - * / %,\n" +
	"== != < <= > >=, in (1, 2), and, or, not, and log, floor, abs, min, max, missing(x), if(condition, x, y), seconds(x, \"iso\"). A field that\n" +
	"== compares with a string, another field or an integer from 2^53 on is a string, otherwise a number. A condition is 1 or 0. The result of a\n" +
	"missing value, and of x / 0, is missing. where keeps the records for which its condition is 1."

const labelAbout = "The field to predict. labels adds more labels: each is a number, 0 or 1 unless it has a threshold or kind: number. Each\n" +
	"label has its own network. The embeddings are shared, and the loss is the sum over the labels. Early stopping and\n" +
	"schedules use the first label. A label of labels may be missing in some records: they have no loss for it, and its\n" +
	"metrics leave them out."

const registryAbout = "Where the schemas of the records of topics are, with format: avro or protobuf. A record begins with the byte 0 and the\n" +
	"id of its schema, as the serializers of Confluent, Karapace, Redpanda and Apicurio write it. Each schema is fetched\n" +
	"once. Fields are found by name in the schema with which a record was written; a field that this schema does not have is\n" +
	"missing. Members are named record.member. A record with an unknown id is unusable (max_bad, follow.bad). A registry\n" +
	"that does not answer is waited for: 20 seconds, or without limit with follow. JSON records (jsonl) may begin in the\n" +
	"same way and need no registry.\n" +
	"\n" +
	"A registry must support format=serialized for Protobuf (Confluent, Karapace, Redpanda 25.2). For others, write descriptors\n" +
	"with protoc --include_imports -o ID.desc CLICK.proto, and name their folder in files."

func dataSections() []section {
	return []section{
		{"", reflect.TypeFor[Config](), fileAbout, []key{
			{name: "data", about: "the records and how they become fields"},
			{name: "label", about: "what is predicted"},
			{name: "labels", about: "further labels, each with its own tower over the same embeddings"},
			{name: "features", about: "inputs of the model, each computed from one field"},
			{name: "crosses", about: "wide features that combine several others"},
			{name: "tables", about: "settings of single embedding tables"},
			{name: "model", about: "the network architecture"},
			{name: "train", about: "training"},
		}},
		{"data", reflect.TypeFor[schema.Source](), topics, []key{
			{name: "train", def: "required", about: "training data: files, globs, topics (kafka://, see above), remote files (https://, s3://, gs://, webhdfs:// and others), folders (all files below them, in the order of their names, except those whose names begin with . or _) or builtin:NAME", filled: true},
			{name: "test", def: "none", about: "evaluated once after training"},
			{name: "valid", def: "none", about: "evaluated after each epoch; early stopping and plateau schedules watch it"},
			{name: "hosts", def: "shared", about: "which host has the local files of train, test and valid. shared: all hosts have the same ones (names, sizes and ends are compared). each: every host has its own, and the data is their union, ordered by host name; ranks read the files of other hosts over the network", choices: schema.Hosting()},
			{name: "negative_rate", def: "1", about: "fraction of the training records with label 0 to use; predicted probabilities remain calibrated for all records", rng: "[1e-06, 1]"},
			{name: "valid_fraction", def: "0", about: "instead of valid: hold out this fraction of train: of each class at random, unless valid_time or valid_group is set", rng: "[0, 1)"},
			{name: "valid_time", def: "none", about: "instead of random records, hold out the newest by this field of numbers, of ISO dates, or of dates in the format of a feature of it; records of equal time stay together"},
			{name: "valid_group", def: "none", about: "instead of random records, hold out all records of random values of this field, such as a user"},
			{name: "format", def: "csv", about: "format of all files and topics; compressed files are decompressed", choices: schema.Formats()},
			{name: "delimiter", def: "comma for csv, tab for tsv", about: "one byte between fields"},
			{name: "header", def: "false", about: "the first line of each file names the fields"},
			{name: "fields", def: "none", about: "names of the fields in file order, if there is no header", filled: true},
			{name: "comment", def: "none", about: "skip lines that start with this"},
			{name: "multiline", def: "false", about: "quoted fields of csv may hold line breaks; every rank then reads a file from its beginning"},
			{name: "escape", def: "none", about: "csv and tsv: what a backslash escapes. quoted: quotes and backslashes in quoted fields, as Spark writes. all: any byte, as MySQL, MariaDB, PostgreSQL COPY and Hive write: \\t, \\n, \\\\, \\\", an escaped delimiter; \\N is missing. With multiline, an escaped line break too", choices: schema.Escapes()},
			{name: "missing", def: "none", about: "values that mean missing, in addition to the empty one"},
			{name: "derive", def: "none", about: "columns computed by expressions, usable like fields: {liked: \"rating >= 4\", tip_share: \"tips / fare\"}"},
			{name: "where", def: "all", about: "condition, such as \"fare > 0\", for the records to train and evaluate on; the others are counted"},
			{name: "train_where", def: "all", about: "further condition for the records of train"},
			{name: "valid_where", def: "all", about: "further condition for the records of valid"},
			{name: "max_bad", def: "0", about: "how many unusable records to skip in each of train, valid and test; one more ends the job", rng: "[0, inf)"},
			{name: "index", def: "none", about: "feature index written by wdlrun data index; its vocabularies and statistics replace the ones computed from train"},
			{name: "follow", about: "settings for training data that grows"},
			{name: "registry", about: "schemas of topics in avro or protobuf"},
			{name: "explode", def: "none", about: "topics of jsonl, avro and protobuf: a member that is a list. Each element is a record, with the other members: {op: u, data: [{id: 1}, {id: 2}]} has two, with the fields op and data.id. null and an empty list have none"},
		}},
		{"data.follow", reflect.TypeFor[schema.Follow](), "Trains on new files of the folders or globs of train as they arrive, in the order of their paths, or on new records\n" +
			"of its topics (kafka://HOST:PORT/TOPIC?group=G). Each is used once. A span contains what one poll finds. Move\n" +
			"files into the folder when they are complete. There is one epoch.", []key{
			{name: "on", def: "false", about: "train grows: follow it"},
			{name: "mark", def: "_SUCCESS", about: "file that marks its folder as complete"},
			{name: "idle", def: "0, never", about: "end training after this many seconds without new data", rng: "[0, 31536000]"},
			{name: "poll", def: "1", about: "seconds between polls", rng: "(0, 86400]"},
			{name: "files", def: "64", about: "maximum number of files in a span; the files of a span are shuffled together", rng: "[1, 65536]"},
			{name: "rows", def: "65536", about: "maximum number of records per partition in a span", rng: "[1, 1073741824]"},
			{name: "steps", def: "0, none", about: "end training after this step", rng: "[0, inf)"},
			{name: "lost", def: "stop", about: "what to do if the position is not in a topic any more, because records were deleted before they were read, or the topic was deleted and created again. stop: end the job. skip: report it, count the records and continue with the oldest one; a span that was begun before ends", choices: []string{schema.LostStop, schema.LostSkip}},
			{name: "bad", about: "unusable records and files of train to leave out, by their rate"},
		}},
		{"data.follow.bad", reflect.TypeFor[schema.Bad](), "Leaves out unusable records of train, and files that are unusable as a whole: without the label or a field, with\n" +
			"a header unlike that of the other files of a span, or with a name that sorts before one that was read. They are counted, and\n" +
			"bad.jsonl in the run directory has their places and reasons. Without most, max_bad is the limit for records, and an\n" +
			"unusable file ends the job.", []key{
			{name: "per", def: "10000", about: "number of records", rng: "[1, 1000000]"},
			{name: "most", def: "0, off", about: "how many of them may be unusable on average; the job ends if there are more than twice as many at once. A file counts as one", rng: "[0, 1000000]"},
			{name: "to", def: "bad.jsonl in the run directory", about: "folder, or topic (kafka://HOST:PORT/TOPIC), for unusable records, each a JSON object with its place (file, offset), the reason and the first 4 KiB. A folder gets a file for each span that has some; at most 1,000 records of a span and rank are kept"},
		}},
	}
}

func registrySections() []section {
	return []section{
		{"data.registry", reflect.TypeFor[schema.Registry](), registryAbout, []key{
			{name: "url", def: "none", about: "address of a schema registry, http:// or https://"},
			{name: "credentials", def: "none", about: "file with the lines username=NAME and password=SECRET, which are sent to url; over http:// anyone who listens can read them"},
			{name: "ca", def: "the system's", about: "PEM file of the authorities that sign the certificate of url"},
			{name: "cert", def: "none", about: "PEM file of a client certificate for url"},
			{name: "key", def: "none", about: "PEM file of the key of cert"},
			{name: "files", def: "none", about: "instead of url: a folder with ID.avsc (Avro) or ID.desc (Protobuf), or one file for the records of all ids. All hosts need it at the same path"},
			{name: "message", def: "the one that the record names", about: "Protobuf: full name of the message"},
			{name: "bare", def: "false", about: "records have no schema id, and are messages of files, which is one file"},
		}},
	}
}

func inputSections() []section {
	return []section{
		{"label, labels[]", reflect.TypeFor[schema.Label](), labelAbout, []key{
			{name: "field", def: "required", about: "the field"},
			{name: "positive", def: `["1"], negative ["0"], without a threshold`, about: "values that are 1", filled: true},
			{name: "negative", def: "every other value", about: "values that are 0; any other value is then an error"},
			{name: "threshold", def: "none", about: "instead of positive: 1 if the number is at least this", rng: "(-inf, inf)"},
			{name: "kind", def: "binary", about: "binary: predict a probability; number: predict a number", choices: []string{"binary", "number"}},
			{name: "loss", def: "squared for a number, otherwise the log-loss", about: "loss of a number: squared, or poisson for counts, with exp(logit) as the prediction. Of a binary label: fake_negative, for samples that are negatives first and are repeated as positives when feedback arrives (wdlrun join -emit early): importance weights make the model predict the rate of feedback; docs/online.md", choices: []string{"squared", "poisson", schema.FakeNegative}},
			{name: "weight", def: "none", about: "only in label: field with the weight of each sample in training and in metrics, from 0 to 1048576"},
			{name: "loss_weight", def: "1", about: "factor of the label's loss if there are several labels", rng: "(0, 1e+06]"},
		}},
		{"features[]", reflect.TypeFor[schema.Feature](), "One input computed from one field; several features may use the same field. Sparse encodings (keys of a table):\n" +
			"vocabulary (strings of the training data; all others share one key), hash (of the string), id (the 64-bit\n" +
			"integer itself), quantile and boundaries (number of the interval), hour, weekday and month (of a date).\n" +
			"Dense encodings (a number for the deep part): standardise ((x - mean) / deviation), log (sign(x) ln(1 + |x|)),\n" +
			"raw, vector (a list of size numbers), age (days before the newest date of the training data, or before reference,\n" +
			"standardised), rate (two numbers of a value: the log-odds of its share of positive training records, smoothed, and\n" +
			"the logarithm of their number, standardised; see docs/data.md).\n" +
			"\n" +
			"A date is iso (2024-05-31, 2024-05-31T12:30:00+02:00), unix, unix_ms, unix_us, unix_ns, or a pattern of\n" +
			"%Y %y %m %b %d %H %I %p %M %S %f %z: %y%m%d%H is Avazu's 14102100. Without format, training uses iso, unix…,\n" +
			"%y%m%d%H or %Y%m%d, whichever parses the most values of its data. A date without a zone is in UTC. A value that\n" +
			"is not a date counts as missing; training reports their number.", []key{
			{name: "name", def: "the field, or field_encode if that is taken", about: "name of the feature"},
			{name: "field", def: "required", about: "the field that it is computed from"},
			{name: "encode", def: "required", about: "the encoding", choices: encodings()},
			{name: "separator", def: "none", about: "vocabulary, hash, id, vector, rate: separator of several values in a field"},
			{name: "pairs", def: "none", about: "vocabulary, hash, id: mark between each value and its weight, such as : in t1:1.5|t4:0.5; embeddings are multiplied by the weight"},
			{name: "padding", def: "none", about: "vocabulary, hash, id: value that fills lists up to one length, such as -1; it is left out"},
			{name: "max_len", def: "none", about: "vocabulary, hash, id: use only the first values of a list, at most this many; -50: the last 50"},
			{name: "weights", def: "none", about: "vocabulary, hash, id: field with one number per value, in the same place of its list; embeddings are multiplied by it"},
			{name: "size", def: "none", about: "vector: number of elements of the list", rng: "[1, 4096]"},
			{name: "standardise", def: "false", about: "vector: standardise each element"},
			{name: "buckets", def: "quantile 33, hash none", about: "quantile: number of intervals; hash: modulus", rng: "[1, inf)"},
			{name: "boundaries", def: "none", about: "boundaries: ascending limits of the intervals", rng: "(-inf, inf)", filled: true},
			{name: "min_count", def: "1", about: "vocabulary: rarer strings share the unknown key; with 1, a tenth of the strings that occur once share it too", rng: "[1, inf)"},
			{name: "max_size", def: "none", about: "vocabulary: maximum number of strings with their own key, the most frequent ones", rng: "[1, inf)"},
			{name: "log", def: "false", about: "standardise, age: apply sign(x) ln(1 + |x|) first"},
			{name: "clip", def: "true", about: "standardise, vector with standardise: clip numbers to the range of the training data"},
			{name: "format", def: "detected in the training data", about: "hour, weekday, month, age: format of the dates"},
			{name: "zone", def: "UTC", about: "hour, weekday, month: time zone, such as Europe/Berlin (if hosts have tzdata) or +02:00"},
			{name: "reference", def: "the newest date of train", about: "age: days before this date, in the iso format"},
			{name: "table", def: "the feature's name", about: "sparse: its table; features may share a table"},
			{name: "wide", def: "model.wide", about: "sparse: use in the wide part"},
			{name: "deep", def: "model.deep", about: "sparse: use in the deep part"},
			{name: "init", def: "none", about: "vocabulary, hash, id: Parquet file with the columns value and vector, with which new embeddings begin"},
			{name: "freeze", def: "0", about: "with init: number of steps of the training in which the embeddings of its table do not change; wide weights do", rng: "[0, inf)"},
			{name: "was", def: "none", about: "with train -from: name of the feature in the source, if the feature was renamed"},
		}},
		{"crosses[]", reflect.TypeFor[schema.Cross](), "A wide feature with one key per combination of the values of others.", []key{
			{name: "name", def: "the features joined by _x_", about: "name of the cross"},
			{name: "of", def: "required", about: "names of 2 to 8 sparse features", filled: true},
			{name: "buckets", def: "none", about: "modulus of the combined hash", rng: "[1, inf)"},
			{name: "table", def: "the cross's name", about: "table of its weights"},
		}},
	}
}

const modelAbout = "logit = wide weights of all keys + network(x), x = the embeddings and dense inputs. The network is, by kind,"

// networkKeys returns keys of a kind of network.
func networkKeys(all ...network.Key) (keys []key) {
	for _, k := range all {
		keys = append(keys, key{name: k.Name, def: k.Default, about: k.About, rng: k.Range, choices: k.Choices, filled: k.Filled})
	}
	return keys
}

// noWide returns the kinds that have no wide part by default.
func noWide() string {
	var names []string
	for _, k := range network.Kinds() {
		if k.NoWide {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, " and ")
}

func modelSections() []section {
	var own []key
	var parts []section
	for _, k := range network.Kinds() {
		if k.Own == nil {
			continue
		}
		own = append(own, networkKeys(*k.Own)...)
		if k.Parts != nil {
			parts = append(parts, section{"model." + k.Own.Name, k.Parts.Type, k.Parts.About, networkKeys(k.Parts.Keys...)})
		}
	}
	return slices.Concat(tableSections(), []section{{"model", reflect.TypeFor[Model](), modelAbout + network.About(), append(modelKeys(), own...)}}, parts, []section{
		{"model.init, tables[].init", reflect.TypeFor[Init](), "Initial values of embedding rows.", []key{
			{name: "kind", def: "normal", about: "normal (deviation scale), uniform (within ±scale) or zero", choices: initKinds()},
			{name: "scale", def: "0.05", about: "standard deviation or bound, see kind", rng: "(0, 1000]"},
		}},
	})
}

func tableSections() []section {
	return []section{
		{"tables[]", reflect.TypeFor[Table](), "Settings of one table, which features and crosses name in their key table. Other tables have the defaults.", []key{
			{name: "name", def: "required", about: "the table"},
			{name: "dim", def: "model.embedding_dim", about: "width of its embeddings", rng: "[1, 4096]"},
			{name: "pooling", def: "model.pooling", about: "how several values of a sample become one", choices: poolings()},
			{name: "init", def: "model.init", about: "initial values of its embeddings"},
			{name: "deep", def: "train.optimizer.deep", about: "rule of its embeddings"},
			{name: "wide", def: "train.optimizer.wide", about: "rule of its wide weights"},
			{name: "l2", def: "train.l2", about: "its L2 strengths"},
			{name: "values", def: "float32", about: "precision of its rows in memory; bfloat16 takes half the memory and rounds stochastically", choices: numbers()},
			{name: "admit", about: "which keys get a row"},
			{name: "evict", about: "which rows are evicted; their keys start again from initial values"},
			{name: "wire", about: "precision in which its rows and gradients are sent"},
			{name: "strategy", def: "auto", about: "what is sent: rows of distinct keys (rows), or sums of bags computed by the owners (pooled); auto chooses the fewest bytes, estimated from a sample of the data", choices: strategies()},
			{name: "tier", about: "memory limit, and where cold rows are stored"},
		}},
		{"tables[].admit", reflect.TypeFor[Admit](), "A key gets a row in the step of its after-th occurrence. Checkpoints contain the counts; counting restarts if counters changes.", []key{
			{name: "after", def: "1", about: "number of steps in which the key must occur", rng: "[1, 255]"},
			{name: "counters", def: "4194304", about: "bytes of the counting sketch over all ranks; use four per expected key", rng: "[1024, 68719476736]"},
		}},
		{"tables[].evict", reflect.TypeFor[Evict](), "The age of a row is the number of steps since its last gradient. Its score is the number of its gradients, halved every\n" +
			"half_life steps. max_rows is divided among the 1024 shards of the table, at least one row each, so the smallest\n" +
			"limit is 1024. A shard above its share evicts rows even if others are below it; so the result does not depend on the number of ranks.", []key{
			{name: "age", def: "none", about: "evict older rows", rng: "[1, 2147483647]"},
			{name: "max_rows", def: "none", about: "maximum number of rows over all ranks; each shard evicts its oldest rows, or those with the lowest score", rng: "[1, inf)"},
			{name: "half_life", def: "none, no score", about: "steps after which scores are halved", rng: "[1, 2147483647]"},
			{name: "min_score", def: "none", about: "evict rows with a lower score", rng: "(0, inf)"},
		}},
		{"tables[].wire", reflect.TypeFor[Wire](), "bfloat16 halves the bytes; sums and updates stay float32.", []key{
			{name: "rows", def: "float32", about: "precision of rows, from owners to readers", choices: numbers()},
			{name: "gradients", def: "float32", about: "precision of gradients, from readers to owners", choices: numbers()},
		}},
		{"tables[].tier", reflect.TypeFor[Tier](), "Above the memory limit, the least recently used rows move to an unnamed file in dir. They return when they are used.", []key{
			{name: "dir", def: "required with memory", about: "existing folder on a fast local disk"},
			{name: "memory", def: "none", about: "memory limit of this table on a rank, in MiB", rng: "[1, 1073741824]"},
		}},
		{"tables[].l2", reflect.TypeFor[TableL2](), "L2 strengths of one table.", []key{
			{name: "deep", def: "train.l2.deep", about: "L2 strength of its embeddings", rng: "[0, inf)"},
			{name: "wide", def: "train.l2.wide", about: "L2 strength of its wide weights", rng: "[0, inf)"},
		}},
	}
}

func modelKeys() []key {
	return []key{
		{name: "kind", def: "wide_deep", about: "the architecture", choices: network.Names(), shown: true},
		{name: "wide", def: "true", about: "false removes the linear part; the default is false for " + noWide() + ", as in its paper"},
		{name: "deep", def: "true", about: "false removes the MLP: logistic regression"},
		{name: "embedding_dim", def: "8", about: "width of embeddings", rng: "[1, 4096]"},
		{name: "pooling", def: "sum", about: "how several values of a sample become one: sum, mean, or sum / sqrt(n)", choices: poolings()},
		{name: "init", about: "initial values of embeddings; wide weights start at 0"},
		{name: "hidden", def: "[128, 64]", about: "widths of the MLP's hidden layers, at most 64 layers", rng: "[1, 65536]", filled: true},
		{name: "activation", def: "relu", about: "after each hidden layer", choices: activations()},
		{name: "batch_norm", def: "false", about: "normalise each hidden layer with the statistics of the global batch", shown: true},
		{name: "dropout", def: "0", about: "fraction of hidden units dropped in training", rng: "[0, 1)", shown: true},
		{name: "weights", def: "he", about: "initial values of the MLP's weights: he (uniform; variance 2/in before relu, otherwise Glorot's), pytorch (uniform within 1/sqrt(in), biases too)", choices: weights()},
	}
}

func trainSections() []section {
	return []section{
		{"train", reflect.TypeFor[Train](), "Training.", []key{
			{name: "epochs", def: "1", about: "passes over the training data", rng: "[1, 1000000]"},
			{name: "batch", def: "none", about: "samples per rank and step; instead of global_batch", rng: "[1, 16777216]"},
			{name: "global_batch", def: "256", about: "samples of all ranks per step; gives the same training on any number of ranks", rng: "[1, 67108864]"},
			{name: "seed", def: "0", about: "seed of initial values, shuffling, hold-out and dropout", shown: true},
			{name: "shuffle", def: "true", about: "read in a random order, a new one in each epoch: uniform up to 64 MiB of records, above that from 1,024 random groups of 64 KiB at a time; false: in file order"},
			{name: "slots", def: "0", about: "a power of two: divide the global batch into this many microbatches and sum them in order, so that 1, 2, 4 … ranks give the same bits", rng: "[0, 256]"},
			{name: "threads", def: "1", about: "compute threads of each rank; another number rounds differently", rng: "[1, 256]"},
			{name: "precision", def: "fp32", about: "precision of the operands of products; weights, sums and updates stay in fp32; tf32 is for GPUs; bf16 on the CPU is for the MLP and needs AVX512_BF16 or AMX", choices: precisions()},
			{name: "device", def: "cpu", about: "what computes the dense layers; gpu needs a build with the tag gpu and a GPU for each rank; auto takes the faster one in a measurement, and the CPU if there is no GPU; set by -device", choices: devices()},
			{name: "mode", def: "wait", about: "slow ranks: wait for them, drop late microbatches (they come first in the next step), or speculate (compute them on another rank too); set by -mode", choices: []string{"wait", "drop", "speculate"}},
			{name: "backup", def: "0", about: "drop: how many microbatches of a step may be late; 0 chooses by measured times; set by -backup", rng: "[0, 4096]"},
			{name: "optimizer", about: "update rules"},
			{name: "scaling", def: "sqrt", about: "batches above 256 samples; sqrt: sgd, adam and adamw multiply learning_rate by √(batch/256), and the batch grows from 256 to its size, never above 1/32 of the samples trained so far; none: rates and batches as written", choices: []string{"sqrt", "none"}},
			{name: "l2", about: "L2 penalty λ/2 ‖w‖² on weights: adds λ w to the gradient"},
			{name: "class_weight", about: "factors of the sample weights in training, by class"},
			{name: "clip_norm", def: "0, none", about: "clip the gradient of all parameters together to this norm", rng: "[0, inf)", shown: true},
			{name: "schedule", about: "factor of the learning rates over time"},
			{name: "eval_every", def: "1", about: "epochs, or spans of a stream, between evaluations of the validation data", rng: "[1, 1000000]"},
			{name: "eval_steps", def: "none", about: "instead of eval_every: steps between evaluations, from the first step of the training; the end of the last epoch is also evaluated", rng: "[1, inf)"},
			{name: "early_stop", about: "end when the metric of the validation data no longer improves; restore the best epoch"},
			{name: "refit", def: "false", about: "after the training, train once more on all rows, with those of data.valid_fraction, for the best number of epochs; validation metrics are those of the first training"},
			{name: "gate", about: "compare the model with the one that train -from began with"},
			{name: "from", about: "what to take from the model that train -from begins with"},
			{name: "retain", about: "with train -by: which rows of tables are removed by event time"},
			{name: "checkpoint", about: "when to write checkpoints"},
			{name: "export", about: "where and how often to publish the model"},
		}},
		{"train.optimizer", reflect.TypeFor[Optimizer](), "Update rules, each with the keys of a rule, below.", []key{
			{name: "dense", def: "kind adam", about: "rule of the MLP and its biases"},
			{name: "deep", def: "kind adagrad", about: "rule of embeddings"},
			{name: "wide", def: "kind ftrl", about: "rule of wide weights and their bias"},
		}},
		{"a rule: train.optimizer.dense, .deep, .wide, tables[].deep, .wide", reflect.TypeFor[optim.Rule](), "An update rule and its constants.", ruleKeys()},
		{"train.l2", reflect.TypeFor[L2](), "L2 strengths λ. Biases and batch norm have none.", []key{
			{name: "dense", def: "0", about: "strength for the MLP's weights", rng: "[0, inf)", shown: true},
			{name: "deep", def: "0", about: "strength for embeddings", rng: "[0, inf)", shown: true},
			{name: "wide", def: "0", about: "strength for wide weights", rng: "[0, inf)", shown: true},
			{name: "mode", def: "lazy", about: "lazy: only rows of the batch; dense: every row takes a step in every step, as in frameworks with dense gradients", choices: []string{"lazy", "dense"}},
		}},
		{"train.class_weight", reflect.TypeFor[Classes](), "Factors of the sample weights by the first label, which must be binary. They shift predictions: a factor of 3 for\n" +
			"positives about triples the odds. The loss of the training counts them, metrics of evaluations do not.", []key{
			{name: "positive", def: "1", about: "factor for samples with label 1", rng: "(0, 1e+06]"},
			{name: "negative", def: "1", about: "factor for samples with label 0", rng: "(0, 1e+06]"},
		}},
		{"train.schedule", reflect.TypeFor[Schedule](), "Factor of the learning rates. linear and cosine fall from 1 to min over all steps, step multiplies by\n" +
			"factor every every_steps, plateau after patience evaluations without improvement.", []key{
			{name: "kind", def: "constant", about: "the curve after the warm-up", choices: schedules()},
			{name: "warmup", def: "0", about: "steps over which the factor rises to 1", rng: "[0, inf)"},
			{name: "min", def: "0", about: "lower bound of the factor", rng: "[0, 1]"},
			{name: "factor", def: "0.1", about: "step, plateau: multiplier of each reduction", rng: "(0, 1)"},
			{name: "every_steps", def: "required by step", about: "step: steps between reductions", rng: "[1, inf)"},
			{name: "patience", def: "1", about: "plateau: evaluations without improvement before a reduction", rng: "[1, 1000000]"},
		}},
		{"train.early_stop", reflect.TypeFor[EarlyStop](), "Checks the metric of the validation data after each evaluation.", []key{
			{name: "patience", def: "0, never", about: "evaluations without improvement before the end", rng: "[0, 1000000]", shown: true},
			{name: "metric", def: "logloss", about: "metric that must improve, also for a plateau schedule; auc falls back to the log-loss if all samples have the same label", choices: []string{"auc", "logloss"}},
			{name: "min_delta", def: "0", about: "minimum improvement", rng: "[0, 1]"},
		}},
		{"train.gate", reflect.TypeFor[Gate](), "With train -from, evaluates the model before it and the new one on the same validation rows: docs/daily.md. A new\n" +
			"model that is worse is kept, does not become the latest run, and the exit code is 3. Without -from, it has no effect.", []key{
			{name: "metric", def: "none: nothing is compared", about: "metric to compare; auc falls back to the log-loss if all samples have the same label", choices: []string{"auc", "logloss"}},
			{name: "data", def: "valid", about: "rows on which the models are compared: the validation rows; or, next, with train -by, the rows of the next partition, on which neither was trained; the newest partition then waits for the one after it", choices: []string{"valid", "next"}},
			{name: "tolerance", def: "0", about: "how much worse the new model may be", rng: "[0, 1]"},
		}},
	}
}

func sourceSections() []section {
	return []section{
		{"train.from", reflect.TypeFor[From](), "With train -from, what the training takes from the model that it begins with: docs/daily.md. Without -from, it has\n" +
			"no effect.", []key{
			{name: "optimizer", def: "kept", about: "kept: states of the optimizers and their step count continue; reset: they start again, and so do steps", choices: []string{"kept", "reset"}},
			{name: "statistics", def: "kept", about: "means, quantiles and dates of kept features; new: computed from train, which shifts scores", choices: []string{"kept", "new"}},
			{name: "allow", def: "none", about: "differences from the source that are otherwise rejected. dim: the embeddings of a table with another width start again. network: another model.kind, wide, deep, activation or batch_norm; all layers start again, and tables are kept", choices: []string{"dim", "network"}},
			{name: "names", about: "tables and layers with the arrays of a source that is no model of this program"},
			{name: "inputs", def: "the order of features, numbers last", about: "features in the order of the inputs of the first layer of such a source"},
		}},
		{"train.from.names[]", reflect.TypeFor[Named](), "An array of a source that is no model of this program: docs/daily.md. train -from -plan proposes this list.", []key{
			{name: "name", def: "required", about: "name of a table, of its wide weights (TABLE/wide), or of a layer (deep/linear0/weight)"},
			{name: "array", def: "none", about: "name of the array; none: zeros"},
			{name: "values", def: "NAME.json or NAME.parquet of the folder", about: "file with the value of each row of a table: Parquet with the columns value and row, or JSON, an object {value: row} or a list of values in the order of the rows"},
			{name: "unknown", def: "__OOV__ and other usual names", about: "value in this file whose row stands for all other values"},
			{name: "missing", def: "__PAD__ and other usual names", about: "value in this file whose row stands for missing values"},
			{name: "order", def: "by shape and name", about: "order of the dimensions of a weight: in_out as in Keras, out_in as in PyTorch", choices: []string{"in_out", "out_in"}},
		}},
	}
}

func savingSections() []section {
	return []section{
		{"train.retain", reflect.TypeFor[Retain](), "Before the training on each partition of train -by, removes rows of tables that the partitions of the last days did\n" +
			"not contain: docs/daily.md. Their values keep their places in vocabularies, and start again from initial values.", []key{
			{name: "days", def: "0, no limit", about: "days of event time", rng: "[0, 36500]"},
		}},
		{"train.checkpoint", reflect.TypeFor[Checkpoint](), "A checkpoint is always written at the end, a full one at the end of each epoch, and one at the end of each span of a stream. If both intervals are set, the one that passes first counts.", []key{
			{name: "every_steps", def: "none", about: "steps between checkpoints", rng: "[1, inf)"},
			{name: "every_seconds", def: "600 without every_steps", about: "seconds between checkpoints, also fractions", rng: "[0.1, 31536000]"},
			{name: "full_every", def: "10", about: "one in this many is full, the others contain the changes since the previous one; 1: all are full", rng: "[1, 1000]"},
			{name: "keep", def: "3", about: "how many of the newest checkpoints to keep", rng: "[1, 10000]"},
			{name: "copies", def: "1", about: "hosts that hold each part of a checkpoint, if the hosts do not share the run directory; with 2, the loss of a host loses no checkpoint", rng: "[1, 2]"},
		}},
		{"train.export", reflect.TypeFor[Export](), "Publishes the model while it is trained, for wdlrun serve: docs/serving.md. Cannot be combined with l2.mode: dense, which changes every row in every step.", []key{
			{name: "dir", def: "none: nothing is published", about: "folder of the versions on the host of rank 0, such as models/ctr"},
			{name: "every_seconds", def: "2", about: "seconds between versions, also fractions", rng: "[0.05, 31536000]"},
			{name: "full_every", def: "100", about: "one version in this many is complete, the others contain the changes since the previous one", rng: "[1, 1000]"},
			{name: "keep", about: "which versions are not removed"},
			{name: "guard", about: "which versions are not published"},
		}},
		{"train.export.keep", reflect.TypeFor[Kept](), "Versions that the training does not remove, in addition to pinned ones, those of other programs, and those on which\n" +
			"a kept version depends. Versions are removed when one has become complete.", []key{
			{name: "versions", def: "1", about: "how many of the newest versions to keep", rng: "[1, 1000000]"},
			{name: "complete", def: "2", about: "how many of the newest complete versions to keep", rng: "[1, 10000]"},
			{name: "hours", def: "0", about: "the last complete version of each of this many hours is kept", rng: "[0, 100000]"},
		}},
		{"train.export.guard", reflect.TypeFor[Guard](), "Publishes no version while the predictions are bad: docs/serving.md. Compares windows of the samples\n" +
			"of rank 0, predicted before the step that learns from them, with the window before the last published version.", []key{
			{name: "window", def: "10000 with action", about: "samples of a window", rng: "[100, 1000000000]"},
			{name: "logloss", def: "0.1 with action", about: "relative increase of the log-loss", rng: "(0, 1000]"},
			{name: "calibration", def: "0.2 with action", about: "difference of the calibration from 1, and relative change of the share of positive labels", rng: "(0, 1000]"},
			{name: "auc_drop", def: "0.02 with action", about: "decrease of the AUC", rng: "(0, 1]"},
			{name: "action", def: "none: nothing is compared", about: "what a bad window causes: a warning; a hold of the folder until three windows in a row are good; or the end of the training", choices: []string{"warn", "hold", "stop"}},
		}},
	}
}

// ruleKeys returns the keys of an update rule. They reject an explicit zero if optim treats
// zero as the default.
func ruleKeys() []key {
	return []key{
		{name: "kind", def: "see train.optimizer; required in tables", about: "the rule", choices: optim.Kinds()},
		{name: "learning_rate", def: byKind(func(r optim.Rule) float64 { return r.LearningRate }), about: "learning rate, see train.scaling; FTRL's alpha", rng: "(0, inf)"},
		{name: "beta1", def: byKind(func(r optim.Rule) float64 { return r.Beta1 }), about: "decay of the first moment", rng: "(0, 1)"},
		{name: "beta2", def: byKind(func(r optim.Rule) float64 { return r.Beta2 }), about: "decay of the second moment", rng: "(0, 1)"},
		{name: "beta", def: byKind(func(r optim.Rule) float64 { return r.Beta }), about: "added to the root of the sum of squares", rng: "(0, inf)"},
		{name: "epsilon", def: byKind(func(r optim.Rule) float64 { return r.Epsilon }), about: "added to the root", rng: "(0, inf)"},
		{name: "accumulator", def: byKind(func(r optim.Rule) float64 { return value(r.Accumulator) }), about: "initial sum of squares, of gradients of one sample; PyTorch's and DLRM's is 0", rng: "[0, inf)"},
		{name: "weight_decay", def: byKind(func(r optim.Rule) float64 { return value(r.WeightDecay) }), about: "a step first multiplies weights by 1 − rate × weight_decay: only rows of the batch, or every row with train.l2.mode dense; biases too, as in the paper", rng: "[0, inf)"},
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

// byKind formats the default of a constant for each rule that has it.
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

// fileAbout is the introduction of the reference.
const fileAbout = `wdlrun init -data FILE writes a configuration for your records. Paths are relative to the working
directory. -set train.epochs=3 replaces a key for one job; -set features[0].encode=hash replaces a key
of the first entry of a list. All -set are applied before the result is checked. One that excludes other
keys, such as model.kind=dcn_v2 the crosses, removes them and names them. An example; only data, label and features are required:

  data:
    train: [clicks/day_*.csv]
    test: [clicks/last.csv]
    header: true
  label: {field: clicked, positive: ["1"]}
  features:
    - {field: user_id, encode: hash}
    - {field: hour, encode: vocabulary}
    - {field: interests, encode: vocabulary, separator: "|"}
    - {field: price, encode: standardise, log: true}
  crosses:
    - {of: [hour, interests], buckets: 100000}
  tables:
    - {name: user_id, admit: {after: 2}, evict: {age: 100000}}
  model: {kind: deepfm, embedding_dim: 8, hidden: [256, 128]}
  train:
    epochs: 2
    global_batch: 4096
    optimizer: {deep: {kind: rowwise_adagrad}}`

func newGrammar() grammar {
	s := grammar{sections: sections(), byType: map[reflect.Type]int{}}
	for i, sec := range s.sections {
		s.byType[sec.typ] = i
	}
	return s
}
