package logs

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
)

// What a log holds is known to the byte, wherever its blocks and records end.
func TestScanChunks(t *testing.T) {
	t.Parallel()
	for _, newest := range []bool{false, true} {
		var log bytes.Buffer
		w := record.NewLogWriter(&log, 7, record.LogWriterConfig{
			WriteWALSyncOffsets: func() bool { return newest },
			QueueSemChan:        make(chan struct{}, 1),
		})
		rng := rand.New(rand.NewPCG(1, 1))
		ends := []int64{0}
		for i := range 80 {
			size := rng.IntN(300)
			if i%2 == 0 { // up to somewhere near the end of a block
				size = chunkBlock - int(w.Size())%chunkBlock - rng.IntN(60)
			}
			end, err := w.WriteRecord(make([]byte, max(size, 0)))
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		check := func(content []byte, want int64, behind bool) {
			t.Helper()
			found, err := Scan(bytes.NewReader(content), true, 7, func(Chunk) {})
			if left := chunkBlock - want%chunkBlock; left < chunkHeadNew && found.Sound == want+left {
				found.Sound = want // zeros where no chunk fits belong to the block
			}
			if err != nil || found.Sound != want || (found.Behind > 0) != behind {
				t.Errorf("newest format %v: found %+v, %v; expected %d, and something behind it: %v", newest, found, err, want, behind)
			}
		}
		check(log.Bytes(), int64(log.Len()), false)
		for i, end := range ends[1:] {
			zeros := make([]byte, 2*chunkBlock)
			check(append(slices.Clone(log.Bytes()[:end]), zeros...), end, false)
			if begin := ends[i]; begin%chunkBlock < chunkBlock-100 && i < len(ends)-2 {
				broken := slices.Clone(log.Bytes())
				broken[begin+chunkHeadLog-1] ^= 1 // in the log's number
				check(broken, begin, true)
			}
		}
	}
}
