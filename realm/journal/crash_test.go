package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"realm.dev/contract"
)

// crashEnv makes the test binary write in the directory that it names until
// somebody kills it.
const crashEnv = "REALM_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver does what a session does at each transition, and says each line
// that it was promised.
func writeForEver(dir string) error {
	j, _, err := Open(dir)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		head, err := j.Append(intent(strings.Repeat("a", 1+i%100)), i%3 == 0)
		if err != nil {
			return err
		}
		if err := WriteRecord(dir, testRecord(contract.States()[i%6])); err != nil {
			return err
		}
		fmt.Println(head.Seq, head.Hash)
	}
}

// kill -9 at any moment leaves no torn file and takes back no line that was
// promised.
func TestKilledWriter(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	dir := sessionDir(t)
	for round := range 15 {
		promised := killWriter(t, self, dir, time.Duration(1+round*3)*time.Millisecond)
		j, found := mustOpen(t, dir)
		must(t, j.Close())
		if found.Head.Seq < promised.Seq {
			t.Fatalf("round %d: line %d was promised, %d is the last", round, promised.Seq, found.Head.Seq)
		}
		f, err := os.Open(filepath.Join(dir, Name))
		must(t, err)
		if last, err := Verify(f, promised.Hash); err != nil || last != found.Head {
			t.Errorf("round %d: %v, %v, want %v", round, last, err, found.Head)
		}
		must(t, f.Close())
		if _, err := ReadRecord(dir); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

// killWriter lets a writer run for d from its first line on, kills it, and
// returns the last line that it said.
func killWriter(t *testing.T, self, dir string, d time.Duration) Head {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = []string{crashEnv + "=" + dir}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var last Head
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if last.Seq == 0 {
			time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
		}
		seq, hash, ok := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(seq, 10, 64)
		if err != nil || !ok || len(hash) != 64 {
			break // the last thing it said was cut short
		}
		last = Head{Seq: n, Hash: hash}
	}
	_ = cmd.Wait() // it was killed
	if last.Seq == 0 {
		t.Fatal("the writer wrote nothing")
	}
	return last
}
