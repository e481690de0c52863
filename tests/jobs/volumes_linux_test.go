package jobs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// diskless returns a working folder and an ssh client. On each host the folder shows the host's
// home directory. If the home contains a file named small, it shows a new tmpfs of the size in
// this file instead.
func diskless(t *testing.T) (dir, client, homes string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("unshare", "-m", "mount", "--bind", dir, dir).CombinedOutput(); err != nil {
		t.Skipf("hosts without a shared disk need root and mount namespaces: %v: %s", err, out)
	}
	client, homes = fakeSSH(t, `exec unshare -m sh -c "if [ -e small ]; then mount -t tmpfs -o size=\$(cat small) small `+dir+`; else mount --bind \$HOME `+dir+`; fi && cd `+dir+` && exec sh -c \"\$0\"" "$2"`)
	return dir, client, homes
}

// runDiskless runs a command on hosts without a shared disk.
func runDiskless(t *testing.T, dir, client, hosts string, args ...string) outcome {
	t.Helper()
	return run(t, dir, append([]string{"-H", hosts, "-ssh", client}, args...)...)
}

// trainDiskless trains on hosts without a shared disk.
func trainDiskless(t *testing.T, dir, client, hosts string, args ...string) (r trained, o outcome) {
	t.Helper()
	o = runDiskless(t, dir, client, hosts, append([]string{"train", "--json"}, args...)...)
	if o.code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", hosts, o.code, o.stdout, o.stderr)
	}
	return parseTrained(t, o), o
}

// partFiles lists the parts of all checkpoints that a host stores.
func partFiles(homes, host string) (names []string) {
	all, _ := filepath.Glob(filepath.Join(homes, host, "runs/2*/checkpoints/step-*/*.wck"))
	for _, path := range all {
		names = append(names, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
	}
	return names
}

// TestWithoutASharedDisk: hosts without a shared disk store their own parts of checkpoints. A
// training resumes on another number of ranks, or on other hosts with copies, and has the bits
// of an undisturbed one. eval and predict read the parts where they are stored, and ckpt gather
// collects them.
func TestWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=10")
	calm := train(t, dir, 1, append(flags, "-set", "train.epochs=2", "-out", "calm")...)
	half, o := trainDiskless(t, dir, client, "a:2,b:2", append(flags, "-set", "train.epochs=1")...)
	if !strings.Contains(o.stderr, "the hosts do not share "+half.RunDir) || strings.Contains(o.stderr, "rejected") {
		t.Errorf("the first training printed\n%s", o.stderr)
	}
	for host, own := range map[string]string{"a": "/rank-000[01]-", "b": "/rank-000[23]-"} {
		names := partFiles(homes, host)
		for _, name := range names {
			if ok, _ := filepath.Match("*"+own+"*", name); !ok {
				t.Errorf("host %s has %s", host, name)
			}
		}
		if len(names) < 4 {
			t.Errorf("host %s has the parts %q", host, names)
		}
	}
	for rank := range 4 {
		name := fmt.Sprintf("%s/trace-%04d.json", half.RunDir, rank)
		if b, err := os.ReadFile(filepath.Join(homes, "a", name)); err != nil || !bytes.Contains(b, fmt.Appendf(nil, `"pid":%d,`, rank+1)) {
			t.Errorf("host a: the timeline %s of %d bytes: %v", name, len(b), err)
		}
	}
	if o := run(t, filepath.Join(homes, "a"), "trace", half.RunDir); o.code != 0 || !strings.Contains(o.stdout, "\n     3  ") {
		t.Errorf("trace does not describe rank 3: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	whole, o := trainDiskless(t, dir, client, "b:1,a:1", "-resume", half.RunDir, "-set", "train.epochs=2")
	if whole.AUC != calm.AUC || whole.LogLoss != calm.LogLoss || strings.Contains(o.stderr, "rejected") {
		t.Errorf("resumed %+v, undisturbed %+v\n%s", whole, calm, o.stderr)
	}
	if o := runDiskless(t, dir, client, "a,b", "eval", "--json", "-resume", half.RunDir); o.code != 0 || !strings.Contains(o.stdout, fmt.Sprintf(`"auc":%v`, calm.AUC)) {
		t.Errorf("eval: exit code %d, want the AUC %v\n%s%s", o.code, calm.AUC, o.stdout, o.stderr)
	}
	scores := []string{"predict", "-data", "builtin:adult.test", "-out", "-", "-resume"}
	want := run(t, dir, append(scores, calm.RunDir)...)
	if o := runDiskless(t, dir, client, "a,b", append(scores, half.RunDir)...); o.code != 0 || o.stdout != want.stdout || strings.Count(o.stdout, "\n") < 1000 {
		t.Errorf("predict: exit code %d, %d bytes of scores, want %d\n%s%s", o.code, len(o.stdout), len(want.stdout), o.stderr, want.stderr)
	}
	if o := run(t, filepath.Join(homes, "a"), "ckpt", "verify", half.RunDir); o.code != 0 || !strings.Contains(o.stdout, "1 of 2 parts here") {
		t.Errorf("verify before gather: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for _, want := range []string{"1 part, ", "0 parts, "} {
		if o := runDiskless(t, dir, client, "a,b", "ckpt", "gather", half.RunDir); o.code != 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("gather: exit code %d, want %q\n%s%s", o.code, want, o.stdout, o.stderr)
		}
	}
	last := fmt.Sprintf("%s/checkpoints/step-%09d", half.RunDir, whole.Steps)
	if o := run(t, dir, "ckpt", "diff", filepath.Join(homes, "a", last), fmt.Sprintf("%s/checkpoints/step-%09d", calm.RunDir, calm.Steps)); strings.Contains(o.stdout, "sparse/") || strings.Contains(o.stdout, "dense") {
		t.Errorf("the collected checkpoint differs: %s%s", o.stdout, o.stderr)
	}
}

// TestCopiesOnAnotherHost: with two copies a training resumes without one of its hosts, or from
// the intact copy of a damaged part, and gives the same bits. With one copy, a missing part is
// named with its host, and an older checkpoint is used.
func TestCopiesOnAnotherHost(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=10", "-set", "train.checkpoint.full_every=1")
	calm := train(t, dir, 1, append(flags, "-set", "train.epochs=2", "-out", "calm")...)
	half, _ := trainDiskless(t, dir, client, "a:2,b:2", append(flags, "-set", "train.epochs=1", "-set", "train.checkpoint.copies=2")...)
	if a, b := fmt.Sprint(partFiles(homes, "a")), fmt.Sprint(partFiles(homes, "b")); a != b || !strings.Contains(a, "rank-0003-of-0004.wck") {
		t.Errorf("host a has %s, host b %s", a, b)
	}
	newest := fmt.Sprintf("%s/checkpoints/step-%09d", half.RunDir, half.Steps)
	saved := t.TempDir()
	copyTree := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	copyTree(homes, saved)
	for _, x := range []struct {
		name, hosts string
		damage      func() error
		want        string
	}{
		{"host b is lost", "a:1,c:1", func() error { return os.RemoveAll(filepath.Join(homes, "b")) }, ""},
		{"a damaged payload", "a:1,b:1", func() error {
			return flipByte(filepath.Join(homes, "b", newest, "rank-0002-of-0004.wck"), 60)
		}, "the copy of host a is used; host b: "},
		{"a damaged header", "b:1,a:1", func() error {
			return flipByte(filepath.Join(homes, "b", newest, "rank-0000-of-0004.wck"), 9)
		}, "the copy of host a is used; host b: "},
		{"a part on no host", "a:1,b:1", func() error {
			for _, host := range []string{"a", "b"} {
				if err := os.Remove(filepath.Join(homes, host, newest, "rank-0002-of-0004.wck")); err != nil {
					return err
				}
			}
			return nil
		}, "rank-0002-of-0004.wck is intact on no host of this job, it was written on host b and a"},
	} {
		fatal.If(t, os.RemoveAll(homes))
		copyTree(saved, homes)
		fatal.If(t, x.damage())
		got, o := trainDiskless(t, dir, client, x.hosts, "-resume", half.RunDir, "-set", "train.epochs=2")
		if got.AUC != calm.AUC || got.LogLoss != calm.LogLoss || !strings.Contains(o.stderr, x.want) {
			t.Errorf("%s: %+v, undisturbed %+v; want %q\n%s", x.name, got, calm, x.want, o.stderr)
		}
	}
}

// flipByte changes one byte of a file.
func flipByte(path string, at int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[at] ^= 1
	return os.WriteFile(path, b, 0o600)
}

// TestRestartWithoutASharedDisk kills a rank of another host at a checkpoint. The launcher
// restarts the job, which resumes from the parts of both hosts and gives the same bits.
func TestRestartWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	hosts, kills := "a,b", []string{"kill:1@step11"}
	if patient.Size(0, 1) == 1 {
		hosts, kills = "a:2,b:2", []string{"kill:3@step11", "kill:2@step16"}
	}
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=5", "-set", "train.epochs=1")
	calm := train(t, dir, 1, append(flags, "-out", "calm")...)
	o := runDiskless(t, dir, client, hosts, append([]string{"-restarts", "3", "train", "--json", "-set", "train.checkpoint.copies=2", "-chaos", strings.Join(kills, ",")}, flags...)...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if got := parseTrained(t, o); got.AUC != calm.AUC || got.LogLoss != calm.LogLoss || strings.Count(o.stderr, "is killed by injected fault") != len(kills) || strings.Contains(o.stderr, "was not injected") {
		t.Errorf("%+v, undisturbed %+v\n%s", got, calm, o.stderr)
	}
	for _, host := range []string{"a", "b"} {
		left, _ := filepath.Glob(filepath.Join(homes, host, "runs/2*/checkpoints/.*"))
		unfinished, _ := filepath.Glob(filepath.Join(homes, host, "runs/2*/checkpoints/.turn-*/.*"))
		if len(left) != 1 || len(unfinished) > 0 { // the turn
			t.Errorf("host %s still stores %q", host, left)
		}
	}
}

// TestLostHostWithoutASharedDisk: with -min-np a training continues without a lost host, from
// the copies of the host's parts, and gives the same bits.
func TestLostHostWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=20", "-set", "train.epochs=8")
	calm := train(t, dir, 1, append(flags, "-out", "calm")...)
	var out, lines bytes.Buffer
	cmd := command(t, dir, append([]string{"-H", "a:2,b:2", "-ssh", client, "-restarts", "3", "-min-np", "2", "train", "--json", "-set", "train.checkpoint.copies=2"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &lines
	fatal.If(t, cmd.Start())
	eventually(t, "a checkpoint", func() bool {
		found, _ := filepath.Glob(filepath.Join(homes, "a", "runs/2*/checkpoints/step-000000100"))
		return len(found) > 0
	})
	for _, pid := range below(filepath.Join(homes, "b")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	err := cmd.Wait()
	got := parseTrained(t, outcome{stdout: out.String(), stderr: lines.String()})
	if err != nil || got.AUC != calm.AUC || got.LogLoss != calm.LogLoss || !strings.Contains(lines.String(), "host b was lost and is left out; 2 ranks start again") {
		t.Errorf("%v, %+v, undisturbed %+v\n%s", err, got, calm, lines.String())
	}
}

// TestHealsWithoutASharedDisk kills a rank of another host. The job resumes from memory. It does
// not repeat the injected fault, although only that host has recorded it. The launcher has no
// run directory, so it stores the reports of the failure.
func TestHealsWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, _ := diskless(t)
	_, o := trainDiskless(t, dir, client, "a:1,b:1", append(few(t), "-set", "train.epochs=1", "-replicas", "2", "-chaos", "kill:1@step15")...)
	if n := strings.Count(o.stderr, "training resumes from memory"); n != 1 {
		t.Errorf("%d restarts from memory, want 1\n%s", n, o.stderr)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "runs/2*/failure-*/rank-0000.trace")); len(kept) != 1 {
		t.Errorf("the launcher has stored the reports %q\n%s", kept, o.stderr)
	}
}

// TestACopyDoesNotFit: a host without space for copies is named. The checkpoint is valid without
// them.
func TestACopyDoesNotFit(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	fatal.If(t, os.MkdirAll(filepath.Join(homes, "b"), 0o700))
	write(t, filepath.Join(homes, "b"), "small", "160k")
	got, o := trainDiskless(t, dir, client, "a:2,b:1", append(few(t), "-set", "train.epochs=1", "-set", "train.checkpoint.copies=2", "-set", "train.checkpoint.every_steps=100000")...)
	if !strings.Contains(o.stderr, "host b has no copy of the part of rank 0: ") || !strings.Contains(o.stderr, "no space left on device") {
		t.Errorf("training with a full host b: %+v\n%s", got, o.stderr)
	}
	manifest, err := os.ReadFile(filepath.Join(homes, "a", fmt.Sprintf("%s/checkpoints/step-%09d/MANIFEST.json", got.RunDir, got.Steps)))
	if err != nil || !bytes.Contains(manifest, []byte(`"a"`)) {
		t.Errorf("manifest: %v", err)
	}
}

// TestGrowWithoutASharedDisk adds a host with its own disk to a training and drops it again.
// With two copies, the remaining host stores all parts of the checkpoints in between.
func TestGrowWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.epochs=100000", "-set", "train.checkpoint.copies=2")
	cmd := command(t, dir, append([]string{"-H", "localhost:1", "-ssh", client, "train"}, flags...)...)
	fatal.If(t, cmd.Start())
	waitRun(t, dir, cmd)
	for _, x := range []struct{ what, want string }{
		{"add", "the training continues with 2 ranks on localhost:1,b:1\n"},
		{"drop", "the training continues with 1 rank on localhost:1\n"},
	} {
		if o := grown(t, dir, x.what, "b"); !strings.HasSuffix(o.stdout+o.stderr, x.want) {
			t.Errorf("%s: %+v, want %q", x.what, o, x.want)
		}
	}
	if len(partFiles(homes, "b")) == 0 {
		t.Error("the added host wrote no part")
	}
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	if o := end(t, cmd); o.code != 143 || !strings.Contains(o.stderr, "the hosts do not share") || strings.Contains(o.stderr, "rejected") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestMPIWithoutASharedDisk: ranks that mpirun starts on hosts without a shared disk store their
// own parts of checkpoints and read each other's data files. The group forms at an address
// instead of in a shared directory. Here, mpirun starts each rank in the file system of its
// host.
func TestMPIWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	mpirun, err := exec.LookPath("mpirun.openmpi")
	if err != nil {
		t.Skipf("%v: install openmpi-bin", err)
	}
	dir, _, homes := diskless(t)
	header, rows := "click,site\n", strings.Repeat("1,a\n0,x\n", 500)
	config := func(hosts, files string) string {
		return "data: {train: [" + files + "], hosts: " + hosts + ", header: true}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}]\n" +
			"model: {hidden: [8]}\ntrain: {global_batch: 64, epochs: 2, slots: 4}\n"
	}
	for i, host := range []string{"a", "b"} {
		for _, root := range []string{filepath.Join(homes, host, "logs"), filepath.Join(dir, "all", host)} {
			if err := os.MkdirAll(root, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, root, "x.csv", header+rows[:len(rows)-8*i])
		}
	}
	write(t, filepath.Join(homes, "a"), "ctr.yaml", config("each", "logs/*.csv")) // rank 0 reads it
	write(t, dir, "ctr.yaml", config("shared", "all/*/x.csv"))
	calm := train(t, dir, 1, "-config", "ctr.yaml")
	coordinator := fmt.Sprint("WDLRUN_COORDINATOR=127.0.0.1:", freePort(t))
	onHosts := func(args ...string) outcome {
		cmd := command(t, dir, args...)
		cmd.Args = append([]string{mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "4", "-x", coordinator, "-x", "WDLRUN_KEY", "sh", "-c",
			`host=a; [ $OMPI_COMM_WORLD_RANK -lt 2 ] || host=b
			export OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % 2)) OMPI_COMM_WORLD_LOCAL_SIZE=2
			exec unshare -m -u sh -c "hostname $host; mount --bind ` + homes + `/$host ` + dir + `; cd ` + dir + `; "'exec "$@"' sh "$@"`, "sh"}, cmd.Args...)
		cmd.Path, cmd.Env = mpirun, append(cmd.Environ(), "WDLRUN_KEY="+rank.NewKey().Hex())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return end(t, cmd)
	}
	o := onHosts("train", "--json", "-config", "ctr.yaml", "-set", "train.epochs=1")
	if o.code != 0 || !strings.Contains(o.stderr, "data.train is on 2 hosts: a has 1 file (") || !strings.Contains(o.stderr, "the hosts do not share runs/") {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	half := parseTrained(t, o)
	if a, b := partFiles(homes, "a"), partFiles(homes, "b"); len(a) != 2 || len(b) != 2 || a[0] == b[0] {
		t.Errorf("host a stores the parts %q, host b %q", a, b)
	}
	o = onHosts("train", "--json", "-resume", half.RunDir, "-set", "train.epochs=2")
	if whole := parseTrained(t, o); whole.TrainLogLoss != calm.TrainLogLoss || whole.Steps != calm.Steps {
		t.Errorf("%+v, want %+v as with all files on one host\n%s", whole, calm, o.stderr)
	}
}

// TestEachHost: a training on files spread over hosts has the bits of a training with all files
// on one host, in the order of host and path. This also holds after it resumes on other ranks.
// Two hosts with the same files are rejected.
func TestEachHost(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=10")
	i := slices.IndexFunc(flags, func(f string) bool { return strings.HasPrefix(f, "data.train=") })
	path := strings.Trim(strings.TrimPrefix(flags[i], "data.train="), "[]\"")
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	lines := strings.SplitAfter(string(b), "\n")
	third := len(lines) / 3
	for name, part := range map[string][]string{"a/logs/part-1.csv": lines[:third], "a/logs/part-2.csv": lines[third : 2*third], "b/logs/part-1.csv": lines[2*third:]} {
		for _, root := range []string{homes, filepath.Join(dir, "all")} {
			fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
			write(t, root, name, strings.Join(part, ""))
		}
	}
	for j, f := range flags {
		if strings.HasPrefix(f, "data.test=") { // built in, so that every host has it
			flags[j] = "data.test=[builtin:adult.test]"
		}
	}
	one, each := slices.Clone(flags), append(slices.Clone(flags), "-set", "data.hosts=each")
	one[i], each[i] = "data.train=[all/*/logs/*.csv]", "data.train=[logs/*.csv]"
	calm := train(t, dir, 1, append(one, "-set", "train.epochs=2", "-out", "calm")...)
	half, o := trainDiskless(t, dir, client, "b:1,c:1,a:2", append(each, "-set", "train.epochs=1")...)
	if want := "data.train is on 3 hosts: a has 2 files ("; !strings.Contains(o.stderr, want) || !strings.Contains(o.stderr, ", c has 0 files (0 MB)") {
		t.Errorf("want %q\n%s", want, o.stderr)
	}
	whole, o := trainDiskless(t, dir, client, "a:1,b:2,c:1", "-resume", half.RunDir, "-set", "train.epochs=2")
	if whole.AUC != calm.AUC || whole.LogLoss != calm.LogLoss {
		t.Errorf("resumed %+v, want %+v as with all files on one host\n%s", whole, calm, o.stderr)
	}
	if o := runDiskless(t, dir, client, "a,b,c", "ckpt", "gather", half.RunDir); o.code != 0 {
		t.Errorf("gather: %+v", o)
	}
	last := fmt.Sprintf("%s/checkpoints/step-%09d", half.RunDir, whole.Steps)
	o = run(t, dir, "ckpt", "diff", filepath.Join(homes, "a", last), fmt.Sprintf("%s/checkpoints/step-%09d", calm.RunDir, calm.Steps))
	if calm.Steps != whole.Steps || strings.Contains(o.stdout, "sparse/") || strings.Contains(o.stdout, "dense") || strings.Contains(o.stdout, "encoder") {
		t.Errorf("the checkpoint differs from the training with all files on one host: %s%s", o.stdout, o.stderr)
	}
	if o := runDiskless(t, dir, client, "a,b", "eval", "--json", "-resume", half.RunDir, "-data", "logs/*.csv"); o.code != 0 || !strings.Contains(o.stdout, `"a:logs/part-1.csv","a:logs/part-2.csv","b:logs/part-1.csv"`) {
		t.Errorf("eval of the files of two hosts: %+v", o)
	}
	readElsewhere(t, dir, client, homes, calm.RunDir, half.RunDir)
	if o := runDiskless(t, dir, client, "a,b", append([]string{"train", "-replicas", "2"}, each...)...); o.code == 0 || !strings.Contains(o.stderr, "data.hosts: each") {
		t.Errorf("-replicas: %+v", o)
	}
	write(t, homes, "b/logs/part-2.csv", strings.Join(lines[third:2*third], ""))
	fatal.If(t, os.Rename(filepath.Join(homes, "b/logs/part-1.csv"), filepath.Join(homes, "b/was.csv")))
	write(t, homes, "b/logs/part-1.csv", strings.Join(lines[:third], ""))
	if o := runDiskless(t, dir, client, "a,b", append([]string{"train"}, each...)...); o.code == 0 || !strings.Contains(o.stderr, "hosts a and b have the same files, whose records would count twice") {
		t.Errorf("two hosts with the same files: %+v", o)
	}
}

// readElsewhere compares the output of predict and data index for files on hosts a and b with
// their output for the same files on one host. one and each are run directories with the same
// model.
func readElsewhere(t *testing.T, dir, client, homes, one, each string) {
	t.Helper()
	want := run(t, dir, "predict", "-resume", one, "-data", "all/*/logs/*.csv", "-out", "-")
	if o := runDiskless(t, dir, client, "a,b", "predict", "-resume", each, "-data", "logs/*.csv", "-out", "-"); o.code != 0 || o.stdout != want.stdout || strings.Count(o.stdout, "\n") < 100 {
		t.Errorf("predict: exit code %d, %d bytes of scores, want %d\n%s%s", o.code, len(o.stdout), len(want.stdout), o.stderr, want.stderr)
	}
	write(t, dir, "scores.csv", "of the launcher's host")
	write(t, homes, "b/there.csv", "of host b")
	for name, want := range map[string]string{"scores.csv": "", "there.csv": "predict: there.csv exists; remove it first or choose another name"} {
		if o := runDiskless(t, dir, client, "b,a", "predict", "-resume", each, "-data", "logs/*.csv", "-out", name); (o.code == 0) != (want == "") || !strings.Contains(o.stderr, want) {
			t.Errorf("predict -out %s: want %q: %+v", name, want, o)
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, one, "config.yaml"))
	fatal.If(t, err)
	for _, root := range []string{dir, filepath.Join(homes, "b")} {
		write(t, root, "ctr.yaml", string(config))
	}
	index := []string{"data", "index", "-config", "ctr.yaml", "-out"}
	run(t, dir, append(index, "single.index", "all/*/logs/*.csv")...)
	write(t, dir, "ctr.index", "of the launcher's host")
	elsewhere := append(index, "ctr.index", "-set", "data.hosts=each", "logs/*.csv")
	o := runDiskless(t, dir, client, "b,a", elsewhere...)
	single, _ := os.ReadFile(filepath.Join(dir, "single.index"))
	if b, err := os.ReadFile(filepath.Join(homes, "b", "ctr.index")); err != nil || len(b) == 0 || !bytes.Equal(b, single) {
		t.Errorf("data index: %v: %d bytes, want %d: %+v", err, len(b), len(single), o)
	}
	if o := runDiskless(t, dir, client, "b,a", elsewhere...); o.code == 0 || !strings.Contains(o.stderr, "host b") || !strings.Contains(o.stderr, "index: ctr.index exists; remove it or choose another name") || strings.Contains(o.stderr, "data.train is on") {
		t.Errorf("data index overwrites a file: %+v", o)
	}
}

// TestALostHostBeforeACheckpoint: a job that restarts without a host before its first checkpoint
// warns that the host's files are missing.
func TestALostHostBeforeACheckpoint(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	config := "data: {train: [logs/x.csv], hosts: each, header: true}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}]\n" +
		"model: {hidden: [8]}\ntrain: {epochs: 2, batch: 64}\n"
	write(t, dir, "ctr.yaml", config)
	for _, host := range []string{"a", "b"} {
		fatal.If(t, os.MkdirAll(filepath.Join(homes, host, "logs"), 0o700))
		write(t, homes, host+"/logs/x.csv", "click,site\n"+strings.Repeat("1,"+host+"\n0,x\n", 500))
		write(t, homes, host+"/ctr.yaml", config)
	}
	var lines bytes.Buffer
	cmd := command(t, dir, "-H", "a,b", "-ssh", client, "-restarts", "3", "-min-np", "1", "train", "-config", "ctr.yaml", "-chaos", "stop:1000s@1@step2")
	cmd.Stderr = &lines
	fatal.If(t, cmd.Start())
	eventually(t, "the first steps", func() bool {
		found, _ := filepath.Glob(filepath.Join(homes, "a", "runs/2*/metrics.jsonl"))
		return len(found) > 0
	})
	for _, pid := range below(filepath.Join(homes, "b")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	err := cmd.Wait()
	const want = "data.hosts: each: the training starts from the beginning, without the files of host b, which is not in this job"
	if err != nil || strings.Count(lines.String(), want) != 1 {
		t.Errorf("%v, want %q once\n%s", err, want, lines.String())
	}
}

// TestALostHostWithFiles: if a host is lost in the middle of an epoch while others read its
// files, one verdict names the host. A job without the host names its files and the cure. After
// the end of an epoch, a training resumes without them and warns.
func TestALostHostWithFiles(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	config := "data: {train: [logs/x.csv], hosts: each, header: true}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}]\n" +
		"model: {hidden: [8]}\ntrain: {epochs: 1000, batch: 64, checkpoint: {every_steps: 50, copies: 2}}\n"
	write(t, dir, "ctr.yaml", config)
	for _, host := range []string{"a", "b"} {
		fatal.If(t, os.MkdirAll(filepath.Join(homes, host, "logs"), 0o700))
		write(t, homes, host+"/logs/x.csv", "click,site\n"+strings.Repeat("1,"+host+"\n0,x\n", 50_000))
		write(t, homes, host+"/ctr.yaml", config)
	}
	var lines bytes.Buffer
	cmd := command(t, dir, "-H", "a:2,b:2", "-ssh", client, "-restarts", "3", "-min-np", "2", "train", "-config", "ctr.yaml")
	cmd.Stderr = &lines
	fatal.If(t, cmd.Start())
	run := ""
	eventually(t, "a checkpoint", func() bool {
		found, _ := filepath.Glob(filepath.Join(homes, "a", "runs/2*/checkpoints/step-000000050"))
		if len(found) > 0 {
			run, _ = filepath.Rel(filepath.Join(homes, "a"), filepath.Dir(filepath.Dir(found[0])))
		}
		return run != ""
	})
	for _, pid := range below(filepath.Join(homes, "b")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	begin := time.Now()
	const gone = "host b is not in this job, and its files are gone: [logs/x.csv]; start the job on host b too; the checkpoint of step "
	err := cmd.Wait()
	for _, want := range []string{"host b (ranks 2, 3) was lost", gone, "the job is not restarted: this error would occur again"} {
		if err == nil || strings.Count(lines.String(), want) != 1 || time.Since(begin) > 15*time.Second {
			t.Errorf("%v after %v, want %q once\n%s", err, time.Since(begin), want, lines.String())
		}
	}
	if o := runDiskless(t, dir, client, "a:2", "train", "-resume", run); o.code == 0 || !strings.Contains(o.stderr, "each: "+gone) {
		t.Errorf("resumed without b: %+v", o)
	}
	whole, _ := trainDiskless(t, dir, client, "a:1,b:1", "-resume", run, "-set", "train.epochs=1", "-set", "train.batch=4096", "-set", "train.checkpoint.every_steps=100000")
	_, o := trainDiskless(t, dir, client, "a:1,c:1", "-resume", whole.RunDir, "-set", "train.epochs=2")
	if want := "the training continues with less data: host b is not in this job, and its files are gone: [logs/x.csv]; start the job on host b too, or copy these files to another host"; !strings.Contains(o.stderr, want) {
		t.Errorf("resumed after an epoch: want %q\n%s", want, o.stderr)
	}
}
