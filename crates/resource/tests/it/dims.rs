use phalanx_resource::{DimId, Dims};

#[test]
fn the_first_four_names_are_fixed() {
    let dims = Dims::new();
    let known = [
        (DimId::CPU, "cpu"),
        (DimId::MEMORY, "memory"),
        (DimId::PODS, "pods"),
        (DimId::EPHEMERAL, "ephemeral-storage"),
    ];
    assert_eq!(dims.iter().collect::<Vec<_>>(), known);
    assert_eq!(known.map(|(dim, _)| dim.index()), [0, 1, 2, 3]);
    assert_eq!(dims.len(), 4);
}

#[test]
fn a_name_keeps_its_id() {
    let mut dims = Dims::new();
    assert_eq!(dims.get("nvidia.com/gpu"), None);
    let gpu = dims.intern("nvidia.com/gpu");
    let fpga = dims.intern("example.com/fpga");
    assert_eq!((gpu, fpga), (DimId(4), DimId(5)));
    assert_eq!(dims.intern("nvidia.com/gpu"), gpu);
    assert_eq!(dims.intern("cpu"), DimId::CPU);
    assert_eq!(dims.get("nvidia.com/gpu"), Some(gpu));
    assert_eq!(dims.name(fpga), "example.com/fpga");
    assert_eq!(dims.len(), 6);
}

#[test]
fn each_dimension_counts_in_its_unit() {
    let cases = [
        ("cpu", "1500m", 1500, 1500, "1500m"),
        ("cpu", "0.0001", 1, 0, "1m"),
        ("memory", "4Gi", 1 << 32, 1 << 32, "4Gi"),
        ("memory", "1500m", 2, 1, "2"),
        ("ephemeral-storage", "1536Mi", 3 << 29, 3 << 29, "1536Mi"),
        ("hugepages-2Mi", "64Mi", 1 << 26, 1 << 26, "64Mi"),
        ("pods", "110", 110, 110, "110"),
        ("attachable-volumes-csi-x", "25", 25, 25, "25"),
        ("nvidia.com/gpu", "8", 8000, 8000, "8"),
        ("nvidia.com/gpu", "250m", 250, 250, "0.25"),
        ("example.com/bytes", "1Ki", 1_024_000, 1_024_000, "1024"),
    ];
    for (name, text, amount, ceiling, shown) in cases {
        let mut dims = Dims::new();
        let dim = dims.intern(name);
        let quantity = text.parse().unwrap();
        assert_eq!(dims.amount(dim, quantity), amount, "{name}: {text}");
        assert_eq!(dims.ceiling(dim, quantity), ceiling, "{name}: {text}");
        assert_eq!(dims.format(dim, amount), shown, "{name}: {text}");
    }
}

#[test]
fn huge_requests_do_not_overflow_a_sum() {
    let dims = Dims::new();
    let absurd = dims.amount(DimId::MEMORY, "1e30".parse().unwrap());
    assert_eq!(dims.format(DimId::MEMORY, absurd), "8Pi");
    assert_eq!(dims.amount(DimId::MEMORY, "-1e30".parse().unwrap()), -absurd);
    assert!(absurd.checked_mul(1_000).is_some());
    assert_eq!(dims.ceiling(DimId::MEMORY, "1e30".parse().unwrap()), i64::MAX);
    assert!(dims.room(DimId::MEMORY, "1e30".parse().unwrap()) < absurd, "what was cut down fits nowhere");
}

#[test]
fn pod_level_resources_are_cpu_memory_and_hugepages() {
    let mut dims = Dims::new();
    let pages = dims.intern("hugepages-1Gi");
    let gpu = dims.intern("nvidia.com/gpu");
    let honoured = [DimId::CPU, DimId::MEMORY, pages];
    let ignored = [DimId::PODS, DimId::EPHEMERAL, gpu];
    assert!(honoured.into_iter().all(|dim| dims.is_pod_level(dim)));
    assert!(!ignored.into_iter().any(|dim| dims.is_pod_level(dim)));
}

#[test]
fn names_beyond_the_limit_are_unknown_and_take_no_id_of_others() {
    let mut dims = Dims::new();
    let gpu = dims.intern("nvidia.com/gpu");
    let ids: Vec<DimId> = (0..70_000).map(|i| dims.intern(&format!("example.com/r{i}"))).collect();
    assert_eq!(dims.len(), 1_025);
    assert_eq!((ids[0], dims.intern("nvidia.com/gpu")), (DimId(5), gpu));
    let first = ids.iter().take_while(|dim| !dims.is_unknown(**dim)).count();
    let distinct: std::collections::BTreeSet<DimId> = ids[..first].iter().copied().collect();
    assert_eq!((first, distinct.len()), (1_019, 1_019));
    assert!(ids[first..].iter().all(|dim| dims.is_unknown(*dim)) && !dims.is_unknown(gpu));
    let unknown = dims.unknown();
    assert_eq!(unknown, ids[69_999]);
    let told = dims.naming_unknown("example.com/r69999");
    assert_eq!((told.name(unknown), told.name(gpu)), ("example.com/r69999", "nvidia.com/gpu"));
}
