package realm

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"realm.dev/contract"
)

// However many results are forgotten, an id is never claimed twice.
func TestCallsForgetResultsNotIDs(t *testing.T) {
	var c calls
	big := strings.Repeat("x", 1<<20)
	var entries []*callEntry
	for i := range 200 {
		e, first, err := c.begin(fmt.Sprint(i), sha256.Sum256(nil))
		if err != nil || !first {
			t.Fatalf("call %d: first %v, %v", i, first, err)
		}
		c.end(e, &contract.ToolResult{Exec: &contract.ExecResult{Stdout: contract.Output{Head: big}}})
		entries = append(entries, e)
	}
	kept := 0
	for i, e := range entries {
		if again, first, _ := c.begin(fmt.Sprint(i), sha256.Sum256(nil)); first || again != e {
			t.Fatalf("call %d would run twice", i)
		}
		if c.stored(e) != nil {
			kept++
		}
	}
	if kept == 0 || kept > storedBytes/len(big) || c.stored(entries[199]) == nil {
		t.Errorf("%d results kept", kept)
	}
}
