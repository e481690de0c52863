package modelconfig

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

const text = `# two models
model_config_list {
  config {
    name: "ctr"  base_path: "/models/" "ctr"
    model_platform: "tensorflow"
    model_version_policy { specific { versions: 7 versions: 8 } }
    version_labels { key: 'stable' value: 7 }
    version_labels { key: 'canary' value: 8 }
  }
  config: < name: "cvr" base_path: "/models/cvr" model_version_policy: < latest: < num_versions: 2 > > >
  config { name: "all" base_path: "a" model_version_policy { all {} } }
}
`

func TestModels(t *testing.T) {
	got, err := ParseModels([]byte(text))
	want := []versions.Config{
		{Name: "ctr", Base: "/models/ctr", Policy: versions.Policy{Specific: []int64{7, 8}}, Labels: map[string]int64{"stable": 7, "canary": 8}},
		{Name: "cvr", Base: "/models/cvr", Policy: versions.Policy{Latest: 2}},
		{Name: "all", Base: "a", Policy: versions.Policy{All: true}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

func TestFaultyTexts(t *testing.T) {
	for want, text := range map[string]string{
		`unknown field`:           "model_config_list { config { nam: 'x' } }",
		`(line 2:`:                "model_config_list {\n config: 7 }",
		`give one of latest`:      "model_config_list { config { name: 'a' base_path: 'b' model_version_policy { all {} latest {} } } }",
		`specific names`:          "model_config_list { config { name: 'a' base_path: 'b' model_version_policy { specific {} } } }",
		`model a is given`:        "model_config_list { config { name: 'a' base_path: 'b' } config { name: 'a' base_path: 'b' } }",
		`model_type`:              "model_config_list { config { name: 'a' base_path: 'b' model_type: 1 } }",
		`has no base path`:        "model_config_list { config { name: 'a' } }",
		`more than 16 levels`:     strings.Repeat("model_config_list {", 17),
		`at most 1048576 are`:     strings.Repeat(" ", MaxBytes+1),
		`unknown field: custom_m`: "custom_model_config {}",
	} {
		// Protobuf's messages separate words by one of two kinds of spaces.
		if _, err := ParseModels([]byte(text)); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\u00a0", " "), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestReload(t *testing.T) {
	sub := func(dst []byte, number protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
	}
	config := sub(sub(nil, 1, []byte("ctr")), 2, []byte("/m"))
	label := protowire.AppendVarint(protowire.AppendTag(sub(nil, 1, []byte("stable")), 2, protowire.VarintType), 7)
	config = sub(config, 8, label)
	got, err := ParseReload(sub(nil, 1, sub(nil, 1, sub(nil, 1, config))))
	want := []versions.Config{{Name: "ctr", Base: "/m", Labels: map[string]int64{"stable": 7}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
	if _, err := ParseReload([]byte{255}); err == nil {
		t.Error("a broken request is read")
	}
	for want, b := range map[string][]byte{
		"ModelServerConfig: field 2 is not supported": sub(nil, 1, sub(nil, 2, nil)),
		"ModelConfig: field 6 is not supported":       sub(nil, 1, sub(nil, 1, sub(nil, 1, sub(config, 6, nil)))),
		"ReloadConfigRequest: field 9":                sub(nil, 9, nil),
	} {
		if _, err := ParseReload(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTLS(t *testing.T) {
	got, err := ParseTLS([]byte(`server_key: "K\n" server_cert: "C" custom_ca: "A" client_verify: true`))
	if err != nil || got != (TLS{"K\n", "C", "A", true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseTLS([]byte(`client_verify: true`)); err == nil {
		t.Error("client_verify without custom_ca")
	}
}

func FuzzModels(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, err := ParseModels(b); err == nil && versions.Check(all) != nil {
			t.Error("a faulty configuration is accepted")
		}
		_, _ = ParseReload(b)
		_, _ = ParseTLS(b)
	})
}
