package serve

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/serve"
)

// withoutEffect are the flags of TensorFlow Serving that are accepted, so that its command lines
// work, and have no effect here.
var withoutEffect = []struct {
	name  string
	quiet any // the value that needs no message; its type is the flag's
	why   string
}{
	{"enable_batching", false, "each request is computed separately"},
	{"batching_parameters_file", "", "each request is computed separately"},
	{"enable_per_model_batching_parameters", false, "each request is computed separately"},
	{"allow_version_labels_for_unavailable_models", true, "labels may always name versions that are not available yet"},
	{"rest_api_num_threads", 0, "-threads limits the requests that compute at once"},
	{"grpc_max_threads", 0, "-threads limits the requests that compute at once"},
	{"tensorflow_session_parallelism", 0, "each request is computed by one thread, -threads at once"},
	{"tensorflow_intra_op_parallelism", 0, "each request is computed by one thread, -threads at once"},
	{"tensorflow_inter_op_parallelism", 0, "each request is computed by one thread, -threads at once"},
	{"tensorflow_session_config_file", "", "there is no TensorFlow session"},
	{"platform_config_file", "", "there is no TensorFlow session"},
	{"thread_pool_factory_config_file", "", "-threads limits the requests that compute at once"},
	{"num_load_threads", 0, "the versions of a model are opened one after another"},
	{"num_unload_threads", 0, "a version is closed when its last request has ended"},
	{"max_num_load_retries", 0, "a version that cannot be opened is opened again when its files change"},
	{"load_retry_interval_micros", 0, "a version that cannot be opened is opened again when its files change"},
	{"flush_filesystem_caches", false, "the tables of a model are files in the file system's cache"},
	{"enable_model_warmup", true, "each version is warmed up before it answers"},
	{"num_request_iterations_for_warmup", 0, "each version is warmed up before it answers"},
	{"monitoring_config_file", "", "metrics are at /metrics and /monitoring/prometheus/metrics"},
	{"enable_profiler", false, "-admin has profiles"},
	{"enable_grpc_healthcheck_service", true, "the health service is always available"},
	{"enable_serialization_as_tensor_content", false, "the scores are typed values"},
	{"enable_signature_method_name_check", false, "signatures have their methods"},
	{"per_process_gpu_memory_fraction", 0.0, "requests are computed on the CPU"},
	{"saved_model_tags", "", "a model is no SavedModel"},
	{"remove_unused_fields_from_bundle_metagraph", false, "a model is no SavedModel"},
	{"prefer_tflite_model", false, "a model is no SavedModel"},
	{"num_tflite_pools", 0, "a model is no SavedModel"},
	{"num_tflite_interpreters_per_pool", 0, "a model is no SavedModel"},
	{"xla_cpu_compilation_enabled", false, "nothing is compiled when a model is opened"},
	{"xla_gpu_compilation_enabled", false, "nothing is compiled when a model is opened"},
	{"mixed_precision", "", "use -precision"},
	{"skip_initialize_tpu", false, "requests are computed on the CPU"},
}

// foreignFlags returns the flags of TensorFlow Serving without effect, hidden in the help.
func foreignFlags() (all []cli.Flag) {
	for _, f := range withoutEffect {
		switch v := f.quiet.(type) {
		case bool:
			all = append(all, &cli.BoolFlag{Name: f.name, Value: v, Usage: f.why, Hidden: true})
		case int:
			all = append(all, &cli.Int64Flag{Name: f.name, Usage: f.why, Hidden: true})
		case float64:
			all = append(all, &cli.Float64Flag{Name: f.name, Usage: f.why, Hidden: true})
		default:
			all = append(all, &cli.StringFlag{Name: f.name, Usage: f.why, Hidden: true})
		}
	}
	return append(all, &cli.BoolFlag{Name: "use_alts_credentials", Usage: "not available", Hidden: true},
		&cli.BoolFlag{Name: "version", Usage: "print the version", Hidden: true})
}

// foreign names the given flags of TensorFlow Serving that have no effect, once each. A flag whose
// loss would leave connections unencrypted is an error.
func foreign(c *cli.Context, to io.Writer) error {
	if c.Bool("use_alts_credentials") {
		return fmt.Errorf("serve: -use_alts_credentials is not available: encrypt with -ssl_config_file")
	}
	for _, f := range withoutEffect {
		if c.IsSet(f.name) && fmt.Sprint(c.Value(f.name)) != fmt.Sprint(f.quiet) {
			fmt.Fprintf(to, "wdlrun: serve: -%s has no effect: %s\n", f.name, f.why)
		}
	}
	if c.String("model_config_file") != "" && (c.IsSet("model_base_path") || c.IsSet("model_name")) {
		fmt.Fprintln(to, "wdlrun: serve: -model_name and -model_base_path have no effect: -model_config_file names the models")
	}
	return nil
}

// channelArguments applies -grpc_channel_arguments, a list of NAME=NUMBER with names of gRPC. Those
// that have no effect here are named.
func channelArguments(text string, o *serve.Options, to io.Writer) error {
	if text == "" {
		return nil
	}
	k := &o.Keepalive
	durations := map[string]*time.Duration{
		"grpc.max_connection_age_ms": &k.MaxConnectionAge, "grpc.max_connection_age_grace_ms": &k.MaxConnectionAgeGrace,
		"grpc.max_connection_idle_ms": &k.MaxConnectionIdle, "grpc.keepalive_time_ms": &k.Time, "grpc.keepalive_timeout_ms": &k.Timeout,
	}
	var lost []string
	for _, part := range strings.Split(text, ",") {
		name, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("serve: -grpc_channel_arguments: %q is not NAME=VALUE, such as grpc.max_connection_age_ms=2000", part)
		}
		d, known := durations[name]
		if !known && name != "grpc.max_concurrent_streams" {
			lost = append(lost, name)
			continue
		}
		n, err := strconv.ParseInt(number, 10, 32)
		switch {
		case err != nil || n <= 0:
			return fmt.Errorf("serve: -grpc_channel_arguments: %s=%q: expected a whole number above 0", name, number)
		case known:
			*d = time.Duration(n) * time.Millisecond
		default:
			o.Streams = int(n)
		}
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		fmt.Fprintf(to, "wdlrun: serve: -grpc_channel_arguments: no effect: %s\n", strings.Join(lost, ", "))
	}
	return nil
}

// outputsOf parses -output.
func outputsOf(flags []string) (all []serve.Output, err error) {
	for _, text := range flags {
		name, of, ok := strings.Cut(text, "=")
		of, column := strings.CutSuffix(of, "[N,1]")
		if !ok || name == "" || of == "" || slices.ContainsFunc(all, func(o serve.Output) bool { return o.Name == name }) {
			return nil, fmt.Errorf("serve: -output %q: expected NAME=SOURCE with a new name, such as probabilities=score or probabilities=score[N,1]", text)
		}
		all = append(all, serve.Output{Name: name, Of: of, Column: column})
	}
	return all, nil
}
