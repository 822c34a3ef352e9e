CREATE TABLE IF NOT EXISTS events
(
    stream      LowCardinality(String),
    shard       UInt16,
    position    UInt64 CODEC(Delta, ZSTD(1)),
    writer      UUID,
    seq         UInt64 CODEC(Delta, ZSTD(1)),
    hash        FixedString(32) CODEC(NONE),
    leaf        UInt64 CODEC(Delta, ZSTD(1)),
    kind        LowCardinality(String),
    event_id    UUID,
    exchange_id UUID,
    time        DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    published   DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    tenant      LowCardinality(String),
    raw         String CODEC(ZSTD(1)),
    INDEX by_writer writer TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_exchange exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_time time TYPE minmax GRANULARITY 1
)
ENGINE = $ENGINE
PARTITION BY toYYYYMM(published)
ORDER BY (stream, position)
SETTINGS non_replicated_deduplication_window = 1000, replicated_deduplication_window = 1000
