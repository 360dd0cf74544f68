-- How long do starts take with and without a remedy, in each version, class of hardware, and use of the other remedy?
-- A percentile is the value at the smallest rank that has its share of the pings at or below it. `_low` and `_high` are
-- order statistics: ranks as far away as chance moves the share, each machine counted as one independent start, because
-- the starts of one machine are alike. What the rules are: docs/fleet-sql.md.
with used as (
    select app, version, cpus, memory, disk, machine, wall_us, 'preload' as remedy, preload as has, packed as other
    from pings
    where ('{app}' = '' or app = '{app}')
    union all
    select app, version, cpus, memory, disk, machine, wall_us, 'packed' as remedy, packed as has, preload as other
    from pings
    where ('{app}' = '' or app = '{app}')
),
cells as (
    select remedy, app, version, cpus, memory, disk, other, has, count(*) as n, count(distinct machine) as machines
    from used
    where 1 = 1
    group by remedy, app, version, cpus, memory, disk, other, has
),
ranked as (
    select p.remedy as remedy, p.app as app, p.version as version, p.cpus as cpus, p.memory as memory, p.disk as disk, p.other as other, p.has as has, p.wall_us as wall_us, c.n as n, c.machines as machines,
        cast(row_number() over (partition by p.remedy, p.app, p.version, p.cpus, p.memory, p.disk, p.other, p.has order by p.wall_us) as bigint) as place
    from used p
    join cells c on p.remedy = c.remedy and p.app = c.app and p.version = c.version and p.cpus = c.cpus and p.memory = c.memory and p.disk = c.disk and p.other = c.other and p.has = c.has
)
select r.remedy as remedy, r.app as app, r.version as version, r.cpus as cpus, r.memory as memory, r.disk as disk, r.other as other, r.has as has, r.n as n, r.machines as machines,
    {p50}
from ranked r
group by r.remedy, r.app, r.version, r.cpus, r.memory, r.disk, r.other, r.has, r.n, r.machines
order by r.remedy, r.app, r.version, r.cpus, r.memory, r.disk, r.other, r.has
