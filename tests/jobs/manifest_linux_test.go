package jobs

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// manifested contains the fields of a Job that TestManifest reads.
type manifested struct {
	Kind string
	Data map[string]string
	Spec struct {
		Completions int
		Template    struct {
			Spec struct {
				Subdomain  string
				Containers []struct {
					Name    string
					Command []string
					Env     []struct{ Name, Value string }
				}
			}
		}
	}
}

// TestManifest runs the containers of a manifest as processes of this machine. The DNS name of
// the first pod becomes valid a second after the start.
func TestManifest(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, names := t.TempDir(), filepath.Join(t.TempDir(), "hosts")
	write(t, filepath.Dir(names), "hosts", "127.0.0.1 localhost\n")
	const bind = `mount --bind "$0" /etc/hosts && exec "$@"`
	if out, err := exec.Command("unshare", "-m", "sh", "-c", bind, names, "true").CombinedOutput(); err != nil {
		t.Skipf("changing /etc/hosts in a namespace needs root: %v: %s", err, out)
	}
	flags := []string{"-np", "4", "manifest", "-hosts", "2", "-image", "any", "-name", "ctr-" + strings.ToLower(filepath.Base(t.TempDir())), "-out", "runs"}
	for i, f := range few(t) {
		if i%2 == 1 {
			flags = append(flags, "-set", f)
		}
	}
	o := run(t, dir, flags...)
	if o.code != 0 {
		t.Fatal(o)
	}
	job, key := readManifest(t, o.stdout)
	bin, err := wdlrun()
	fatal.If(t, err)
	var cmds []*exec.Cmd
	first := ""
	for pod := range job.Spec.Completions {
		for _, c := range job.Spec.Template.Spec.Containers {
			cmd := command(t, dir)
			cmd.Path, err = exec.LookPath("unshare")
			fatal.If(t, err)
			cmd.Args = append([]string{"unshare", "-m", "sh", "-c", bind, names, bin}, c.Command[1:]...)
			cmd.Env = append(os.Environ(), "WDLRUN_IP=127.0.0.77", "WDLRUN_KEY="+key, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", pod))
			for _, v := range c.Env {
				if v.Value != "" {
					cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
				}
				if v.Name == "WDLRUN_COORDINATOR" {
					first, _, _ = strings.Cut(v.Value, ":")
				}
			}
			fatal.If(t, cmd.Start())
			cmds = append(cmds, cmd)
		}
	}
	time.Sleep(time.Second)
	write(t, filepath.Dir(names), "hosts", "127.0.0.1 localhost\n127.0.0.77 "+first+"\n")
	for r, cmd := range cmds {
		o := end(t, cmd)
		if o.code != 0 || r == 0 && !strings.Contains(o.stdout, "on 4 ranks") {
			t.Errorf("rank %d: exit code %d\n%s%s", r, o.code, o.stdout, o.stderr)
		}
	}
}

// TestManifestOfALoop runs the containers of an online loop as processes of this machine: events become answers.
func TestManifestOfALoop(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, want := t.TempDir(), map[string]int{}
	write(t, dir, "online.yaml", fmt.Sprintf(onlineYAML, 1, 1))
	write(t, dir, "ctr.yaml", onlineTrainYAML)
	joinLog(t, dir, 0, 10, want)
	o := run(t, dir, "manifest", "-online", "online.yaml", "-image", "any", "-claim", "data", "-out", "runs")
	if o.code != 0 {
		t.Fatal(o)
	}
	_, key := readManifest(t, o.stdout)
	grpc, rest := freePort(t), freePort(t)
	fatal.If(t, os.Mkdir(filepath.Join(dir, "samples"), 0o755)) // Kubernetes starts the training again until it is there
	var cmds []*exec.Cmd
	for _, m := range readObjects(t, o.stdout) {
		for _, c := range m.Spec.Template.Spec.Containers {
			cmd := command(t, dir, c.Command[1:]...)
			for i, arg := range cmd.Args {
				cmd.Args[i] = strings.NewReplacer("/etc/wdlrun/train.yaml", "ctr.yaml", "0.0.0.0", "127.0.0.1", "-port=8500", fmt.Sprint("-port=", grpc), "-rest-port=8501", fmt.Sprint("-rest-port=", rest)).Replace(arg)
			}
			cmd.Env = append(os.Environ(), "WDLRUN_KEY="+key, "JOB_COMPLETION_INDEX=0")
			for _, v := range c.Env {
				if v.Value != "" {
					cmd.Env = append(cmd.Env, v.Name+"="+strings.Replace(v.Value, "wdlrun-0.wdlrun:7070", fmt.Sprint("127.0.0.1:", freePort(t)), 1))
				}
			}
			fatal.If(t, cmd.Start())
			cmds = append(cmds, cmd)
		}
	}
	if len(cmds) != 3 {
		t.Fatalf("%d containers in\n%s", len(cmds), o.stdout)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/v1/models/ctr:predict", rest)
	eventually(t, "an answer", func() bool { return answered(url) })
	for _, cmd := range cmds {
		kill(t, cmd.Process.Pid, syscall.SIGTERM)
	}
	for _, cmd := range cmds {
		want := 0
		if slices.Contains(cmd.Args, "train") { // it writes a checkpoint, and Kubernetes starts it again
			want = 143
		}
		if o := end(t, cmd); o.code != want {
			t.Errorf("%q: exit code %d, want %d: %+v", cmd.Args, o.code, want, o)
		}
	}
}

// TestKubernetesRecipes runs the commands of the section on Kubernetes in docs/running.md. The
// commands that try a rank's environment train on two ranks.
func TestKubernetesRecipes(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	b, err := os.ReadFile("../../docs/running.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(b), "\n## Kubernetes: Indexed Job\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir, local := t.TempDir(), "set -e\n"
	adult, err := os.ReadFile("../../internal/config/adult.yaml")
	fatal.If(t, err)
	write(t, dir, "ctr.yaml", strings.Replace(string(adult), "epochs: 5", "epochs: 1", 1))
	bin, err := wdlrun()
	fatal.If(t, err)
	fatal.If(t, os.Symlink(bin, filepath.Join(dir, "wdlrun")))
	var kinds []string
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(line, "    ")
		words, manifest := strings.CutPrefix(command, "wdlrun ")
		switch {
		case !ok:
		case !manifest:
			local += command
		default:
			o := run(t, dir, strings.Fields(words)...)
			if o.code != 0 {
				t.Errorf("%s%+v", line, o)
			}
			found := regexp.MustCompile(`(?m)^kind: (.*)$`).FindAllStringSubmatch(o.stdout, -1)
			for _, kind := range found {
				kinds = append(kinds, kind[1])
			}
		}
	}
	if want := []string{"Secret", "ConfigMap", "Service", "Job", "Secret", "JobSet"}; !slices.Equal(kinds, want) {
		t.Errorf("the manifests contain %q, want %q", kinds, want)
	}
	local = strings.ReplaceAll(local, "localhost:7070", fmt.Sprint("localhost:", freePort(t))) + "wait $!\n"
	cmd := exec.Command("sh", "-c", local)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " on 2 ranks ") {
		t.Errorf("%v: %s\n%s", err, local, out)
	}
}

// readManifest returns the Job of a manifest and the key in its Secret.
func readManifest(t *testing.T, text string) (job manifested, key string) {
	t.Helper()
	for _, m := range readObjects(t, text) {
		switch m.Kind {
		case "Secret":
			b, err := base64.StdEncoding.DecodeString(m.Data["key"])
			fatal.If(t, err)
			key = string(b)
		case "Job":
			job = m
		}
	}
	return job, key
}

// readObjects returns the objects of a manifest.
func readObjects(t *testing.T, text string) (all []manifested) {
	t.Helper()
	for one := range strings.SplitSeq(text, "---\n") {
		var m manifested
		fatal.If(t, yaml.Unmarshal([]byte(one), &m))
		all = append(all, m)
	}
	return all
}
