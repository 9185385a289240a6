package guest

import "testing"

func TestSmoke(t *testing.T) {
	b := newBox(t)
	out, errs, st := b.output(b.request("sh", "-c", "id; echo err >/dev/stderr; cat /proc/self/status | grep -E 'Cap|NoNew'; ls -la /proc/self/fd; cat /proc/self/oom_score_adj; pwd; ls -lad $HOME"))
	t.Logf("%s %s %+v", out, errs, st)
}
