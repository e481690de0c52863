package serve

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc/keepalive"

	"github.com/wdlrun/wdlrun/internal/serve"
)

// servingFlags are the flags of tensorflow_model_server 2.21, each with a value that differs from
// its default.
var servingFlags = strings.Fields(`
port=1 grpc_socket_path=x rest_api_port=1 rest_api_num_threads=2 rest_api_timeout_in_ms=30000 rest_api_enable_cors_support=true enable_batching=true
allow_version_labels_for_unavailable_models=false batching_parameters_file=x enable_per_model_batching_parameters=true model_config_file=x
model_config_file_poll_wait_seconds=1 model_name=x model_base_path=x num_load_threads=1 num_unload_threads=1 max_num_load_retries=1
load_retry_interval_micros=60000000 file_system_poll_wait_seconds=3 flush_filesystem_caches=true tensorflow_session_parallelism=1
tensorflow_session_config_file=x tensorflow_intra_op_parallelism=1 tensorflow_inter_op_parallelism=1 use_alts_credentials=true ssl_config_file=x
platform_config_file=x per_process_gpu_memory_fraction=.5 saved_model_tags=serve grpc_channel_arguments=a=b grpc_max_threads=3 enable_model_warmup=false
num_request_iterations_for_warmup=1 version=true monitoring_config_file=x remove_unused_fields_from_bundle_metagraph=true prefer_tflite_model=true
num_tflite_pools=1 num_tflite_interpreters_per_pool=2 enable_signature_method_name_check=true xla_cpu_compilation_enabled=true
xla_gpu_compilation_enabled=true enable_profiler=true thread_pool_factory_config_file=x mixed_precision=bf16 skip_initialize_tpu=true
enable_grpc_healthcheck_service=false enable_serialization_as_tensor_content=true`)

// mapped are those that have an effect.
var mapped = strings.Fields(`port grpc_socket_path rest_api_port rest_api_timeout_in_ms rest_api_enable_cors_support model_config_file
	model_config_file_poll_wait_seconds file_system_poll_wait_seconds ssl_config_file version`)

// TestServingFlags: each flag of TensorFlow Serving is accepted, and has an effect or is named once
// with the reason.
func TestServingFlags(t *testing.T) {
	effect := map[string]bool{}
	for _, name := range mapped {
		effect[name] = true
	}
	for _, flag := range servingFlags {
		name, value, _ := strings.Cut(flag, "=")
		var out strings.Builder
		var err error
		app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard, HideVersion: true, ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{{
			Name: "serve", Flags: serveFlags(), Action: func(c *cli.Context) error {
				var o serve.Options
				if err := channelArguments(c.String("grpc_channel_arguments"), &o, &out); err != nil {
					return err
				}
				return foreign(c, &out)
			},
		}}}
		args := []string{"wdlrun", "serve", "--" + name + "=" + value}
		if name == "model_name" || name == "model_base_path" {
			args = append(args, "--model_config_file=x")
		}
		err = app.Run(args)
		got := out.String()
		switch {
		case name == "use_alts_credentials":
			if err == nil || !strings.Contains(err.Error(), "-ssl_config_file") {
				t.Errorf("%s: %v", flag, err)
			}
		case err != nil:
			t.Errorf("%s: %v", flag, err)
		case effect[name] && got != "":
			t.Errorf("%s: %s", flag, got)
		case !effect[name] && (!strings.Contains(got, "-"+name) || !strings.Contains(got, "no effect: ") && !strings.Contains(got, "have no effect") || strings.Count(got, "\n") != 1):
			t.Errorf("%s: %q", flag, got)
		}
	}
	for _, f := range withoutEffect { // a value like ours needs no message
		if b, ok := f.quiet.(bool); ok {
			var out strings.Builder
			app := &cli.App{Writer: io.Discard, Commands: []*cli.Command{{Name: "serve", Flags: serveFlags(), Action: func(c *cli.Context) error { return foreign(c, &out) }}}}
			if err := app.Run([]string{"wdlrun", "serve", fmt.Sprintf("--%s=%v", f.name, b)}); err != nil || out.String() != "" {
				t.Errorf("%s: %v %s", f.name, err, out.String())
			}
		}
	}
}

func TestChannelArguments(t *testing.T) {
	var o serve.Options
	var out strings.Builder
	if err := channelArguments("grpc.max_connection_age_ms=2000, grpc.max_concurrent_streams=7,grpc.x=1,grpc.keepalive_time_ms=5", &o, &out); err != nil {
		t.Fatal(err)
	}
	if want := (keepalive.ServerParameters{MaxConnectionAge: 2 * time.Second, Time: 5 * time.Millisecond}); o.Keepalive != want || o.Streams != 7 {
		t.Errorf("%+v, %d streams", o.Keepalive, o.Streams)
	}
	if want := "wdlrun: serve: -grpc_channel_arguments: no effect: grpc.x\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
	for _, bad := range []string{"x", "grpc.max_connection_age_ms=0", "grpc.max_concurrent_streams=-1", "grpc.keepalive_time_ms=1s"} {
		if err := channelArguments(bad, &o, io.Discard); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
