package contract

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/schemas"
)

var update = flag.Bool("update", false, "write the generated schemas to the repository")

func TestControlPlaneSchemasAreGenerated(t *testing.T) {
	files, err := ControlPlaneSchemas()
	if err != nil {
		t.Fatal(err)
	}
	const dir = "control-plane/v1"
	for name, want := range files {
		if *update {
			if err := os.WriteFile(filepath.Join("..", "schemas", dir, name), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := schemas.Files.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" && !*update {
			t.Errorf("%s is not what package contract generates (-want +got):\n%s", name, diff)
		}
	}
	entries, err := schemas.Files.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(files) {
		t.Errorf("%d files are embedded, %d are generated", len(entries), len(files))
	}
}
