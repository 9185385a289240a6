package podman

import (
	"testing"

	"realm.dev/contract"
)

func TestLifecycle(t *testing.T) {
	e := open(t)
	b := specOf(t, e).start()
	limits, err := e.ReadBack(t.Context(), b.id, b.Spec)
	b.must(err)
	for _, l := range limits {
		v := -1.0
		if l.InForce != nil {
			v = *l.InForce
		}
		t.Log(l.Name, l.Asked, v, l.By, l.Detail)
	}
	_ = contract.Limits{}
}
